// SPDX-License-Identifier: Apache-2.0
#include "graphs.h"

#include <utility>

#include "calls.h"
#include "fake_driver.h"

namespace fake_cuda {

void let_go(UserObject *object, unsigned count) {
    if (object->references < count) die("cuUserObjectRelease", "it has fewer references");
    object->references -= count;
    if (object->references) return;
    driver().call_back({[object] {
                            object->destroy(object->data);
                            delete object;
                        },
                        {}});
}

// One launch after the other, also where streams differ. What it has is kept to the end of the
// last one.
void Exec::launch_on(Stream &stream) {
    ++launches;
    stream.push({Work::Kind::cleanup, [this] { return !std::exchange(runs, true); }});
    for (const Work &node : nodes)
        stream.push(node);
    stream.push({Work::Kind::cleanup, [this] {
                     runs = false;
                     --launches;
                     end_if_unused();
                     return true;
                 }});
}

void Exec::end_if_unused() {
    if (!destroyed || launches) return;
    for (UserObject *object : objects)
        let_go(object);
    driver().execs.erase(this);
    delete this;
}

// ---- the library's calls

CUresult capture_info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                      CUgraph *graph, const CUgraphNode **nodes, size_t *count) {
    ENTER("cuStreamGetCaptureInfo", false);
    const Stream *const asked = stream_of(stream);
    if (!asked) return CUDA_ERROR_INVALID_HANDLE;
    check_alive(*asked, "cuStreamGetCaptureInfo");
    *status = asked->broken     ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
              : asked->captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                : CU_STREAM_CAPTURE_STATUS_NONE;
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    if (id) *id = reinterpret_cast<uint64_t>(asked->captured);
    if (graph) *graph = reinterpret_cast<CUgraph>(asked->captured);
    if (nodes) *nodes = nullptr;
    if (count) *count = 0;
    return CUDA_SUCCESS;
}

CUresult user_object_create(CUuserObject *made, void *data, CUhostFn destroy, unsigned references,
                            unsigned flags) {
    ENTER("cuUserObjectCreate", false);
    if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC || references == 0)
        return wrong("a user object");
    *made = reinterpret_cast<CUuserObject>(new UserObject{destroy, data, references});
    return CUDA_SUCCESS;
}

CUresult user_object_release(CUuserObject object, unsigned count) {
    ENTER("cuUserObjectRelease", false);
    let_go(reinterpret_cast<UserObject *>(object), count);
    return CUDA_SUCCESS;
}

CUresult graph_retain(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
    ENTER("cuGraphRetainUserObject", false);
    auto *const of = reinterpret_cast<Graph *>(graph);
    auto *const kept = reinterpret_cast<UserObject *>(object);
    if (driver().graphs.count(of) == 0) die("cuGraphRetainUserObject", "no such graph");
    if (count == 0 || flags > CU_GRAPH_USER_OBJECT_MOVE) return wrong("a reference to an object");
    if (flags != CU_GRAPH_USER_OBJECT_MOVE) kept->references += count;
    of->objects.insert(of->objects.end(), count, kept);
    return CUDA_SUCCESS;
}

}  // namespace fake_cuda

using namespace fake_cuda;

// ---- what a test does

static void end_graph(Graph *graph) {
    for (UserObject *object : graph->objects)
        let_go(object);
    driver().graphs.erase(graph);
    delete graph;
}

void fake_cuda_capture(void *stream) {
    const std::lock_guard lock(driver().mutex);
    auto *const graph = new Graph;
    driver().graphs.insert(graph);
    stream_of(stream)->captured = graph;
}

void *fake_cuda_end_capture(void *stream) {
    const std::lock_guard lock(driver().mutex);
    Graph *const graph = std::exchange(stream_of(stream)->captured, nullptr);
    if (!std::exchange(stream_of(stream)->broken, false)) return graph;
    end_graph(graph);
    return nullptr;
}

void *fake_cuda_instantiate(void *graph) {
    const std::lock_guard lock(driver().mutex);
    const auto *const of = static_cast<const Graph *>(graph);
    for (UserObject *object : of->objects)
        ++object->references;
    auto *const exec = new Exec{of->nodes, of->objects};
    driver().execs.insert(exec);
    return exec;
}

void fake_cuda_launch(void *exec, void *stream) {
    const std::lock_guard lock(driver().mutex);
    static_cast<Exec *>(exec)->launch_on(*stream_of(stream));
}

void fake_cuda_free_graph(void *graph) {
    const std::lock_guard lock(driver().mutex);
    end_graph(static_cast<Graph *>(graph));
}

void fake_cuda_free_exec(void *exec) {
    const std::lock_guard lock(driver().mutex);
    static_cast<Exec *>(exec)->destroyed = true;
    static_cast<Exec *>(exec)->end_if_unused();
}

static void end_graphs() {
    const std::lock_guard lock(driver().mutex);
    while (!driver().graphs.empty())
        end_graph(*driver().graphs.begin());
    const std::set<Exec *> left = driver().execs;
    for (Exec *exec : left) {
        exec->destroyed = true;
        exec->end_if_unused();
    }
}

// What their ends call back is over too.
void fake_cuda_end_all(void) {
    end_graphs();
    std::set<Stream *> left;
    {
        const std::lock_guard lock(driver().mutex);
        for (Stream *each : driver().streams)
            if (!each->of_library) left.insert(each);
    }
    for (Stream *each : left)
        fake_cuda_end_stream(each);
    std::unique_lock lock(driver().mutex);
    driver().changed.wait(lock, [] { return driver().callbacks.empty() && !driver().calls_back; });
}
