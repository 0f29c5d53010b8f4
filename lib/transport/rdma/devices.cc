// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/devices.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace xfer::rdma {

namespace {

// Devices that are open stay so when the list goes.
class DeviceList {
public:
    explicit DeviceList(const Verbs &verbs)
        : verbs_(verbs), list_(verbs.get_device_list(&count_)) {}
    ~DeviceList() {
        if (list_) verbs_.free_device_list(list_);
    }
    DeviceList(const DeviceList &) = delete;
    DeviceList &operator=(const DeviceList &) = delete;

    explicit operator bool() const { return list_; }
    ibv_device **begin() const { return list_; }
    ibv_device **end() const { return list_ + count_; }

private:
    const Verbs &verbs_;
    int count_ = 0;
    ibv_device **const list_;
};

std::string to_string(const DeviceFilter::Part &part) {
    return part.port ? part.device + ":" + std::to_string(*part.port) : part.device;
}

// A name that is mistyped is told, rather than a device be missed.
void find_unknown(const DeviceFilter &filter, const Verbs &verbs, const DeviceList &list,
                  Devices &devices) {
    for (const DeviceFilter::Part &part : filter.parts) {
        const auto is_named = [&](ibv_device *device) {
            return verbs.get_device_name(device) == part.device;
        };
        const auto has_port = [&](const auto &device) {
            return device->name() != part.device || part.port.value_or(1) <= device->port_count();
        };
        if (std::none_of(list.begin(), list.end(), is_named))
            devices.left_out.push_back(
                {to_string(part), {XFER_ENOTFOUND, XFER_ORIGIN_NONE, 0, "no such device"}});
        else if (!std::all_of(devices.open.begin(), devices.open.end(), has_port))
            devices.left_out.push_back(
                {to_string(part), {XFER_ENOTFOUND, XFER_ORIGIN_NONE, 0, "no such port"}});
    }
}

}  // namespace

Result<Devices> open_devices(const Verbs &verbs, const DeviceFilter &filter) {
    const DeviceList list(verbs);
    if (!list) return verbs_failure(errno, "devices can't be listed");
    Devices devices;
    for (ibv_device *const each : list) {
        const std::string name = verbs.get_device_name(each);
        if (!filter.admits(name)) {
            devices.left_out.push_back({name, not_admitted()});
            continue;
        }
        auto device = Device::open(verbs, each, filter, devices.left_out);
        if (device)
            devices.open.push_back(std::move(*device));
        else
            devices.left_out.push_back({name, device.error()});
    }
    find_unknown(filter, verbs, list, devices);
    std::erase_if(devices.open, [](const auto &device) { return device->ports().empty(); });
    return devices;
}

}  // namespace xfer::rdma
