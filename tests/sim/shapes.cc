// SPDX-License-Identifier: Apache-2.0
// Batches of equal blocks in a random scenario: strides and page tables, whose every byte has one
// place.
#include <algorithm>
#include <numeric>

#include "scenario.h"

namespace xfer {

namespace {

struct Block {
    uint64_t local = 0, remote = 0;  // from the beginning of each
};

struct Shape {
    uint64_t length = 0;
    uint64_t local_stride = 0, remote_stride = 0;         // of strides,
    std::vector<uint64_t> local_pages, remote_pages;      // or of pages,
    bool spans = false;                                   // or of spans
    uint64_t bases = 1, local_base = 0, remote_base = 0;  // and from one base to the next
    std::vector<Block> blocks;
    uint64_t local_bytes = 0, remote_bytes = 0;
};

void measure(Shape &shape) {
    for (const Block &block : shape.blocks) {
        shape.local_bytes = std::max(shape.local_bytes, block.local + shape.length);
        shape.remote_bytes = std::max(shape.remote_bytes, block.remote + shape.length);
    }
}

// So many different numbers, in any order, with gaps.
std::vector<uint64_t> numbers(SimWorld &world, uint64_t count) {
    std::vector<uint64_t> all(count + world.random(count + 1));
    std::iota(all.begin(), all.end(), 0);
    for (size_t i = all.size(); i > 1; --i)
        std::swap(all[i - 1], all[world.random(i)]);
    all.resize(count);
    return all;
}

Shape some_strides(SimWorld &world) {
    Shape shape;
    const bool many = world.random(4) == 0;  // more than a frame has pieces
    const uint64_t count = 1 + world.random(many ? 700 : 12);
    shape.length = 1 + world.random(many ? 60 : 3'000);
    shape.local_stride = shape.length + (world.random(2) ? world.random(shape.length + 1) : 0);
    shape.remote_stride = shape.length + (world.random(2) ? world.random(shape.length + 1) : 0);
    for (uint64_t i = 0; i < count; ++i)
        shape.blocks.push_back({i * shape.local_stride, i * shape.remote_stride});
    measure(shape);
    return shape;
}

Shape some_pages(SimWorld &world) {
    Shape shape;
    const bool many = world.random(4) == 0;
    const uint64_t count = 1 + world.random(many ? 200 : 12);
    shape.length = 1 + world.random(many ? 60 : 3'000);
    shape.bases = 1 + world.random(3);
    shape.local_pages = numbers(world, count);
    shape.remote_pages = numbers(world, count);
    const auto top = [](const auto &pages) {
        return *std::max_element(pages.begin(), pages.end());
    };
    shape.local_base = (top(shape.local_pages) + 1) * shape.length;
    shape.remote_base = (top(shape.remote_pages) + 1) * shape.length + world.random(100);
    for (uint64_t b = 0; b < shape.bases; ++b)
        for (uint64_t i = 0; i < count; ++i)
            shape.blocks.push_back({b * shape.local_base + shape.local_pages[i] * shape.length,
                                    b * shape.remote_base + shape.remote_pages[i] * shape.length});
    measure(shape);
    return shape;
}

// So many places of equal length, in any order on both sides.
Shape some_spans(SimWorld &world) {
    Shape shape;
    shape.spans = true;
    const bool many = world.random(4) == 0;
    shape.length = 1 + world.random(many ? 60 : 3'000);
    const uint64_t count = 1 + world.random(many ? 700 : 12);
    const std::vector<uint64_t> local = numbers(world, count), remote = numbers(world, count);
    const uint64_t gap = world.random(3);
    for (uint64_t i = 0; i < count; ++i)
        shape.blocks.push_back({local[i] * shape.length, remote[i] * (shape.length + gap)});
    measure(shape);
    return shape;
}

xfer_status_t add_spans(xfer_batch_t *batch, uint32_t op, const Shape &shape, const uint8_t *local,
                        const xfer_ref_t &ref, uint64_t offset) {
    std::vector<xfer_span_t> spans;
    for (const Block &block : shape.blocks)
        spans.push_back(
            {reinterpret_cast<uint64_t>(local) + block.local, offset + block.remote, shape.length});
    return xfer_batch_add_spans(batch, op, &ref, spans.data(), sizeof spans[0], spans.size(),
                                nullptr);
}

xfer_status_t add(xfer_batch_t *batch, bool put, const Shape &shape, const uint8_t *local,
                  const xfer_ref_t &ref, uint64_t offset) {
    const uint32_t op = put ? XFER_OP_PUT : XFER_OP_GET;
    if (shape.spans) return add_spans(batch, op, shape, local, ref, offset);
    if (shape.local_pages.empty()) {
        xfer_strided_t strided{};
        strided.size = sizeof strided;
        strided.local = reinterpret_cast<uint64_t>(local);
        strided.remote = &ref;
        strided.offset = offset;
        strided.local_stride = shape.local_stride;
        strided.remote_stride = shape.remote_stride;
        strided.length = shape.length;
        strided.count = shape.blocks.size();
        return xfer_batch_add_strided(batch, op, &strided, nullptr);
    }
    std::vector<xfer_page_base_t> bases;
    for (uint64_t b = 0; b < shape.bases; ++b)
        bases.push_back({reinterpret_cast<uint64_t>(local) + b * shape.local_base, &ref,
                         offset + b * shape.remote_base});
    xfer_pages_t pages{};
    pages.size = sizeof pages;
    pages.base_size = sizeof bases[0];
    pages.index_size = 8;
    pages.length = shape.length;
    pages.count = shape.local_pages.size();
    pages.local_pages = shape.local_pages.data();
    pages.remote_pages = shape.remote_pages.data();
    pages.bases = bases.data();
    pages.base_count = bases.size();
    return xfer_batch_add_pages(batch, op, &pages, nullptr);
}

}  // namespace

void Scenario::act_shape(Life &life) {
    size_t to = 0;
    const Life::Held *ref = some_ref(life, !one_in(3), to);
    if (!ref) return act_question(life, Act::lookup);
    Lent &lent = *ref->lent;
    const Shape shape = swarm.spans && one_in(2) ? some_spans(world)
                        : one_in(2)              ? some_strides(world)
                                                 : some_pages(world);
    const bool put = !lent.fixed;
    if (shape.remote_bytes >= lent.length - (put ? lent.next : 0)) return;
    Life::Ep *ep = life.ep_to(to);
    // The owner has another id now, and its refs are refused.
    if (ep && ep->expected && *ep->expected != model.who(lent.owner).id) return;
    Life::Batch batch;
    batch.node = to;
    batch.ref = ref->ref, batch.lent = &lent, batch.granted = ref->granted;
    if (!ep || xfer_batch_open(ep->handle, nullptr, &batch.handle, nullptr) != XFER_OK) return;
    ModelOperation &operation = model.begin(ModelOperation::batch, life.number, shape.local_bytes);
    operation.ep = batch.ep = ep->number;
    operation.to = lent.owner;
    operation.lent = &lent;
    operation.to_self = to == life.node;
    if (ref->granted) operation.grant = &lent;
    const uint64_t offset = put ? lent.next : random(lent.length - shape.remote_bytes);
    if (put) lent.next += shape.remote_bytes;
    for (const Block &block : shape.blocks) {
        const uint64_t at = offset + block.remote;
        operation.entries.push_back({put, block.local, shape.length, put ? lent.base + at : nullptr,
                                     put ? nullptr : lent.content + at});
    }
    const uint64_t beyond = lent.length - shape.remote_bytes + 1;  // by one byte
    if (one_in(4) &&
        add(batch.handle, put, shape, operation.buffer, ref->ref, beyond) != XFER_ERANGE)
        model.violated(life.name() + ": a batch takes what lies outside of its region");
    if (add(batch.handle, put, shape, operation.buffer, ref->ref, offset) != XFER_OK)
        model.violated(life.name() + ": a batch does not take what lies in its region");
    submit(life, batch, operation);
    life.batches.push_back(batch);
}

}  // namespace xfer
