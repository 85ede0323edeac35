#ifndef STRATA_WORKER_CLIENT_NCCL_SENT_TRACE_H_
#define STRATA_WORKER_CLIENT_NCCL_SENT_TRACE_H_

#include <sys/socket.h>

#include <functional>
#include <utility>
#include <vector>

#include "common/os/framed_channel.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "worker/contract/agent_channel.h"

namespace strata::nccl {

// For tests: returns the events that `send` sends to a worker daemon, fewer than fit into a
// socket's buffer.
inline std::vector<proto::TraceEvent> SentTrace(
    const std::function<void(client::AgentChannel*)>& send) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  client::AgentChannel agent(ends[0]);
  FramedChannel daemon{UniqueFd(ends[1])};
  send(&agent);
  std::vector<proto::TraceEvent> events;
  proto::ChildMessage message;
  while (daemon.TryReceive(&message).value()) {
    EXPECT_EQ(message.trace().dropped(), 0u);
    for (const proto::TraceEvent& event : message.trace().events()) events.push_back(event);
  }
  return events;
}

// Expects sums of `chunks` chunks in one step, one after the other, on the device of that index.
inline void ExpectTracedSums(const std::vector<proto::TraceEvent>& events, uint32_t chunks,
                             uint64_t step, uint32_t device) {
  ASSERT_EQ(events.size(), chunks);
  uint64_t end_us = 0;
  for (uint32_t c = 0; c < chunks; ++c) {
    EXPECT_EQ(events[c].phase(), proto::TraceEvent::REDUCE);
    EXPECT_EQ(events[c].chunk(), c);
    EXPECT_EQ(events[c].clock(), step);
    EXPECT_EQ(events[c].device(), device + 1);
    EXPECT_GE(events[c].start_us(), end_us);
    end_us = events[c].start_us() + events[c].duration_us();
  }
}

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_SENT_TRACE_H_
