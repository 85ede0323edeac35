#ifndef STRATA_WORKER_AGENT_LOGS_LOG_OFFER_H_
#define STRATA_WORKER_AGENT_LOGS_LOG_OFFER_H_

#include <grpcpp/client_context.h>

#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/control/addresses.h"
#include "common/control/credentials.h"
#include "common/control/redial.h"
#include "proto/logs.grpc.pb.h"
#include "proto/logs.pb.h"
#include "worker/agent/logs/log_folders.h"

namespace strata::worker {

// A worker's stream of logs to the coordinator: a connection of its own, beside the session, so
// that no log delays a heartbeat. It is opened again after each break, for as long as this lives.
//
// Threads: Stop and destruction from one; it reads and writes on two of its own.
class LogOffer {
 public:
  struct Options {
    std::string coordinator;            // as control::Session's
    control::Credentials credentials;
    std::string worker;                 // its name
  };

  // Begins at once. `folders` outlives it.
  LogOffer(Options options, const LogFolders* folders);
  ~LogOffer() { Stop(); }
  // Idempotent.
  void Stop();

 private:
  using Stream = grpc::ClientReaderWriter<proto::LogPart, proto::LogWanted>;

  void Run();
  // Connects, and serves until the stream ends, with the reason.
  absl::Status RunLine();
  // Reads what the coordinator wants until the stream ends.
  void Listen(Stream* stream);
  // Sends what is wanted until the stream ends.
  void Serve(Stream* stream);
  // What is wanted next. Waits for it up to `until`; nullopt: nothing is, or the stream has ended.
  std::optional<proto::LogWanted> NextWanted(absl::Time until);
  // Says it once.
  void Warn(const absl::Status& why);

  const Options options_;
  const LogFolders* const folders_;
  control::AddressRound round_;
  control::Redial redial_;
  std::string warned_of_;

  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = true;                       // the present stream
  std::deque<proto::LogWanted> wanted_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // to cancel
  std::thread thread_;  // the last: it uses the others
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGS_LOG_OFFER_H_
