#ifndef STRATA_WORKER_CONTRACT_AGENT_CHANNEL_H_
#define STRATA_WORKER_CONTRACT_AGENT_CHANNEL_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/trace_log.h"
#include "common/os/framed_channel.h"
#include "proto/processes.pb.h"

namespace strata::client {

// A child process's line to the worker daemon that started it. Without a daemon (tests, a program
// run by hand) messages go nowhere.
//
// Threads: any for Send, SendFailed and SendDamaged; one for the rest.
class AgentChannel {
 public:
  // `channel_fd` of the launch, taken over; <= 0: none.
  explicit AgentChannel(int channel_fd);

  bool connected() const { return channel_ != nullptr; }
  int fd() const { return channel_ ? channel_->fd() : -1; }

  // Errors: Unavailable (the daemon is gone or does not read).
  absl::Status Send(const proto::ChildMessage& message);
  // Sends what is out of date when it is late: dropped where the daemon has not read what was sent.
  void SendUnlessFull(const proto::ChildMessage& message);
  // Hands on what the log (null: none) has: as much as the daemon reads now, or, waiting for it,
  // all.
  void SendTrace(TraceLog* log, bool all = false);
  // Why this process is about to exit with an error: one line.
  // `lost`: the local rank that is gone, if that is why; its own end may say more.
  void SendFailed(const std::string& reason, std::optional<uint32_t> lost = std::nullopt);

  // As SendFailed: the checkpoint that the job should resume from is damaged, in one line.
  void SendDamaged(const std::string& damage);

  // Blocks until RunNode comes. `still_wanted` (null: it is) is asked every 100 ms; its error ends
  // the wait. Errors: Unavailable (the daemon is gone).
  absl::StatusOr<proto::RunNode> AwaitRun(const std::function<absl::Status()>& still_wanted);
  // Returns the messages that have come; never blocks. Errors: Unavailable.
  absl::StatusOr<std::optional<proto::AgentMessage>> TryReceive();

 private:
  bool HasRoom() const;

  std::unique_ptr<FramedChannel> channel_;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CONTRACT_AGENT_CHANNEL_H_
