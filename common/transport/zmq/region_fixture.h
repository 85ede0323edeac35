#ifndef STRATA_COMMON_TRANSPORT_ZMQ_REGION_FIXTURE_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_REGION_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "common/buffer_pool.h"
#include "common/transport/region_memory.h"
#include "common/transport/zmq/zmq_endpoint.h"

namespace strata::transport {

inline constexpr size_t kFloats = 4096;
inline constexpr size_t kPayloadBytes = kFloats * sizeof(float);

// An endpoint with memory of its own, and its received events.
struct Host {
  explicit Host(size_t memory_bytes = 1 << 20) {
    ZmqOptions options;
    if (memory_bytes > 0) {
      auto created = RegionMemory::Create(memory_bytes);
      EXPECT_TRUE(created.ok()) << created.status();
      memory = *std::move(created);
      options.memory = memory;
    }
    auto made = CreateZmqEndpoint(options);
    EXPECT_TRUE(made.ok()) << made.status();
    endpoint = *std::move(made);
    pool = std::make_unique<BufferPool>(BufferPool::kRetainedBytesMax, endpoint->memory());
  }

  wire::Frame MakeFrame(float value) {
    const std::shared_ptr<float> floats = pool->AllocateFloats(kFloats);
    std::fill_n(floats.get(), kFloats, value);
    wire::Frame frame;
    frame.header.op = wire::Op::kPushPull;
    frame.header.element_count = kFloats;
    frame.payload = AsBytes(floats, kFloats);
    return frame;
  }

  // Admits the peer after its HELLO.
  void Admit(ConnectionId connection) { endpoint->Admit(connection, endpoint->memory()); }

  std::shared_ptr<RegionMemory> memory;
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<BufferPool> pool;
  std::vector<Event> events;
};

inline bool PollUntil(const std::vector<Host*>& hosts, const std::function<bool()>& done) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (!done()) {
    if (absl::Now() > deadline) return false;
    for (Host* host : hosts) host->endpoint->Poll(absl::Milliseconds(2), &host->events);
  }
  return true;
}

// Returns whether bytes are in another process's memory: neither ours nor malloc's.
inline bool IsShared(const Bytes& bytes) {
  FILE* maps = fopen("/proc/self/maps", "re");
  char line[512];
  bool found = false;
  const auto at = reinterpret_cast<uintptr_t>(bytes.data());
  while (!found && fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0, end = 0;
    char rights[5] = {};
    if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) != 3) continue;
    found = at >= begin && at < end && rights[3] == 's' && rights[1] == '-';
  }
  fclose(maps);
  return found;
}

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_REGION_FIXTURE_H_
