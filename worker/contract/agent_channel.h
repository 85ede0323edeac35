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

// A child process's connection to the worker daemon that started it. Without a daemon (tests, a
// program run by hand) messages are discarded.
//
// Threads: any for Send, SendFailed and SendDamaged; one for the rest.
class AgentChannel {
 public:
  // `channel_fd` from the launch, of which it takes ownership; <= 0: none.
  explicit AgentChannel(int channel_fd);

  bool connected() const { return channel_ != nullptr; }
  int fd() const { return channel_ ? channel_->fd() : -1; }

  // Errors: Unavailable (the daemon is gone or does not read).
  absl::Status Send(const proto::ChildMessage& message);
  // Sends a message that is useless when late: drops it if the daemon has not read earlier ones.
  void SendUnlessFull(const proto::ChildMessage& message);
  // Sends the log's events (null: none): as many as the daemon reads now, or with `all`, waiting,
  // all of them.
  void SendTrace(TraceLog* log, bool all = false);
  // Reports why this process is about to exit with an error: its message, one line, and whether
  // training has diverged. `lost`: the local rank that is gone, if that is the reason; its own exit
  // may tell more.
  void SendFailed(const absl::Status& why, std::optional<uint32_t> lost = std::nullopt);
  // Like SendFailed: the checkpoint that the job should resume from is damaged, in one line.
  void SendDamaged(const std::string& damage);

  // Blocks until RunNode comes. Calls `still_wanted` (null: always wanted) every 100 ms; its error
  // ends the wait. Errors: Unavailable (the daemon is gone).
  absl::StatusOr<proto::RunNode> AwaitRun(const std::function<absl::Status()>& still_wanted);
  // Returns the next message, if one has come; never blocks. Errors: Unavailable.
  absl::StatusOr<std::optional<proto::AgentMessage>> TryReceive();

 private:
  bool HasRoom() const;

  std::unique_ptr<FramedChannel> channel_;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CONTRACT_AGENT_CHANNEL_H_
