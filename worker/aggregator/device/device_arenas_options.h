#ifndef STRATA_WORKER_AGGREGATOR_DEVICE_DEVICE_ARENAS_OPTIONS_H_
#define STRATA_WORKER_AGGREGATOR_DEVICE_DEVICE_ARENAS_OPTIONS_H_

#include <functional>
#include <memory>
#include <vector>

#include "common/block_source.h"
#include "common/fork_join.h"
#include "common/ids.h"
#include "common/trace/trace_log.h"
#include "kernels/device/device.h"
#include "proto/record.pb.h"

namespace strata::worker {

struct DeviceArenasOptions {
  // By local rank: the device that it computes on. Several ranks may have one.
  std::vector<std::shared_ptr<device::Device>> devices;
  // Called from threads of the devices' when Poll has something to do.
  std::function<void()> wake;
  // Ranks, each with a device of its own, have added up a chunk's gradients before BeginSum: in
  // place of those of the rank whose device has the chunk's turn.
  bool ranks_add_up = false;
  // Sums are encoded on the device, as this node of the job encodes its pushes, and TakeSum gives
  // their payloads. Null: it gives fp32. Not used after Create.
  const proto::JobRecord* encodes_for = nullptr;
  NodeId node{0};
  // What the devices do is noted there; outlives the arenas. Null: no event is timed.
  TraceLog* trace = nullptr;
  // Where sums come to lie on the host, if it can be pinned: memory that the exchange may show to
  // peers of this host. Null: the devices' own.
  std::shared_ptr<BlockSource> source = nullptr;
  // Help to copy what comes from the network; outlive the arenas. Null: there are none.
  ForkJoin* helpers = nullptr;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_DEVICE_DEVICE_ARENAS_OPTIONS_H_
