#ifndef STRATA_SERVER_TESTING_FAKE_DAEMON_H_
#define STRATA_SERVER_TESTING_FAKE_DAEMON_H_

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/control/session.h"
#include "common/testing/test_keys.h"

namespace strata::server {

// A worker or server for tests that obeys commands at once, over a real session. A worker reports
// that it is ready, and when told to train reports one window of steps per rank; it finishes when
// the test says so.
class FakeDaemon {
 public:
  static proto::Register Worker(const std::string& name, uint32_t slots);
  static proto::Register Server(const std::string& name, std::vector<uint32_t> ports);

  FakeDaemon(const std::string& coordinator, proto::Register registration,
             control::Credentials credentials = control::Credentials::Insecure());
  // `keys`: the daemon's keys.
  FakeDaemon(const std::string& coordinator, const proto::Register& registration,
             keys::KeyFolder* keys);
  ~FakeDaemon();

  // See Session::Callbacks::on_line; before Start.
  void SetOnLine(std::function<void(std::shared_ptr<grpc::Channel>)> on_line) {
    on_line_ = std::move(on_line);
  }
  absl::Status Start() { return session_->Start(); }
  void Stop() { session_->Stop(); }
  void Send(proto::DaemonMessage message) { session_->Send(std::move(message)); }
  void Finish(uint32_t job);

  // Waits up to 20 s for a message of this kind for the job; returns whether it came.
  bool WaitFor(proto::CoordinatorMessage::MessageCase kind, uint32_t job);
  int Count(proto::CoordinatorMessage::MessageCase kind);
  // Waits up to 20 s for the session's end.
  std::optional<absl::Status> WaitLost();
  void SetRunning(std::set<uint32_t> jobs);

 private:
  void OnMessage(const proto::CoordinatorMessage& message);
  void Train(const proto::RunNode& run);

  const std::string name_;
  std::function<void(std::shared_ptr<grpc::Channel>)> on_line_;
  absl::Mutex mutex_;
  std::vector<proto::CoordinatorMessage> received_ ABSL_GUARDED_BY(mutex_);
  std::set<uint32_t> running_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> lost_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<control::Session> session_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_TESTING_FAKE_DAEMON_H_
