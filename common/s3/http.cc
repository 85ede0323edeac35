#include "common/s3/http.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/s3/transfer.h"

namespace strata::s3 {
Http::Http(const Curl& curl, Options options) : curl_(curl), options_(std::move(options)) {}

Http::~Http() {
  absl::MutexLock lock(&mutex_);
  for (const Line& line : idle_) {
    curl_.easy_cleanup(line.easy);
    curl_.multi_cleanup(line.multi);
  }
}

absl::StatusOr<Http::Line> Http::TakeLine() {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      const Line line = idle_.back();
      idle_.pop_back();
      return line;
    }
  }
  const Line line = {curl_.easy_init(), curl_.multi_init()};
  if (line.easy != nullptr && line.multi != nullptr) return line;
  if (line.easy != nullptr) curl_.easy_cleanup(line.easy);
  if (line.multi != nullptr) curl_.multi_cleanup(line.multi);
  return absl::ResourceExhaustedError("no memory for a request");
}

void Http::GiveLineBack(const Line& line) {
  absl::MutexLock lock(&mutex_);
  idle_.push_back(line);
}

absl::StatusOr<HttpReply> Http::Do(const HttpRequest& request, absl::Time deadline) {
  absl::StatusOr<Line> line = TakeLine();
  if (!line.ok()) return line.status();
  const absl::Cleanup give_back = [&] { GiveLineBack(*line); };
  Transfer transfer(curl_, line->easy, request);
  if (absl::Status status = transfer.Set(options_); !status.ok()) return status;
  if (curl_.multi_add_handle(line->multi, line->easy) != CURLM_OK) {
    return absl::InternalError("libcurl: no request is taken");
  }
  const absl::Status status = Run(*line, transfer, deadline);
  curl_.multi_remove_handle(line->multi, line->easy);
  if (!status.ok()) return status;
  return std::move(transfer.reply());
}

absl::Status Http::Run(const Line& line, Transfer& transfer, absl::Time deadline) {
  const std::stop_callback wake(options_.stop, [&] { curl_.multi_wakeup(line.multi); });
  uint64_t moved = transfer.moved();
  absl::Time moved_at = Now();
  while (true) {
    int running = 0, left = 0;
    if (const CURLMcode code = curl_.multi_perform(line.multi, &running); code != CURLM_OK) {
      return absl::InternalError(absl::StrCat("libcurl: error ", code, " of a transfer"));
    }
    while (const CURLMsg* const message = curl_.multi_info_read(line.multi, &left)) {
      if (message->msg == CURLMSG_DONE) return transfer.Finish(message->data.result);
    }
    if (options_.stop.stop_requested()) return absl::CancelledError("stopped");
    const absl::Time now = Now();
    if (transfer.moved() != moved) {
      moved = transfer.moved();
      moved_at = now;
    }
    if (now - moved_at >= options_.stall_after) {
      return absl::UnavailableError(absl::StrCat(transfer.Peer(), ": no byte for ",
                                                 absl::FormatDuration(options_.stall_after)));
    }
    if (now >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(transfer.Peer(), ": not done in time"));
    }
    const absl::Duration wait = std::min(moved_at + options_.stall_after, deadline) - now;
    const int64_t wait_ms = std::clamp<int64_t>(absl::ToInt64Milliseconds(wait) + 1, 1, 60'000);
    if (curl_.multi_poll(line.multi, nullptr, 0, static_cast<int>(wait_ms), nullptr) != CURLM_OK) {
      return absl::InternalError("libcurl: a transfer that cannot be waited for");
    }
  }
}

}  // namespace strata::s3
