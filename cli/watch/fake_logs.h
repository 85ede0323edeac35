#ifndef STRATA_CLI_WATCH_FAKE_LOGS_H_
#define STRATA_CLI_WATCH_FAKE_LOGS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "cli/watch/log_watch.h"

namespace strata::cli {

// Whose logs can be read; its sources share it.
struct FakeLogs {
  absl::Mutex mutex;
  std::vector<proto::LogLines> said;  // to each source from the first on
  bool is_over = false;               // then Read ends so:
  absl::Status status = absl::OkStatus();
  // Read of its logs goes on, whatever is said and whoever stops it.
  std::optional<uint32_t> deaf_job;
  std::vector<proto::ReadLogs> requests;
  int open = 0;
};

class FakeSource final : public LogSource {
 public:
  explicit FakeSource(FakeLogs* fake) : fake_(fake) {
    absl::MutexLock lock(&fake_->mutex);
    ++fake_->open;
  }
  ~FakeSource() override {
    absl::MutexLock lock(&fake_->mutex);
    --fake_->open;
  }

  absl::Status Read(const proto::ReadLogs& request,
                    const std::function<void(const proto::LogLines&)>& on_lines) override {
    absl::MutexLock lock(&fake_->mutex);
    fake_->requests.push_back(request);
    for (size_t told = 0; true;) {
      const auto is_news = [&] {
        const bool is_deaf = request.job_id() == fake_->deaf_job;
        return !is_deaf && (is_stopped_ || fake_->is_over || told < fake_->said.size());
      };
      fake_->mutex.Await(absl::Condition(&is_news));
      if (is_stopped_) return absl::CancelledError("");
      if (told >= fake_->said.size()) return fake_->status;
      const proto::LogLines lines = fake_->said[told++];
      fake_->mutex.Unlock();
      on_lines(lines);
      fake_->mutex.Lock();
    }
  }
  void Stop() override {
    absl::MutexLock lock(&fake_->mutex);
    is_stopped_ = true;
  }

 private:
  FakeLogs* const fake_;
  bool is_stopped_ = false;
};

inline proto::LogLines LinesOf(uint32_t rank, const std::string& lines,
                               const std::string& error = "") {
  proto::LogLines said;
  said.mutable_process()->set_rank(rank);
  said.set_lines(lines);
  said.set_error(error);
  return said;
}

}  // namespace strata::cli

#endif  // STRATA_CLI_WATCH_FAKE_LOGS_H_
