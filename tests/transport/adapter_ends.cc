// SPDX-License-Identifier: Apache-2.0
#include "ends.h"
#include "rdma_channels.h"

namespace xfer::test {

namespace {

// A turn of theirs is one of the loop, of the signals between them, and of the adapters.
class OnAdapters final : public Ends {
public:
    OnAdapters() {
        channels_.open();
        channel = std::move(channels_.near->channel);
        accepted_ = std::move(channels_.far->channel);
        lend();
    }
    ~OnAdapters() override {
        part();
        channel.reset();
        accepted_.reset();
    }
    bool until(const std::function<bool()> &condition) override {
        return channels_.until(condition);
    }
    void turn() override { channels_.step(); }
    uint64_t now() override { return channels_.loop.now(); }

private:
    rdma::Channels channels_{here, there_};
};

}  // namespace

std::unique_ptr<Ends> make_adapter_ends() {
    return std::make_unique<OnAdapters>();
}

}  // namespace xfer::test
