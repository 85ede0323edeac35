#include "server/coordinator/diagnosis/stall_log.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::server {
namespace {

// Who a wait is about, whatever it does and however long.
std::string WaitKey(const proto::Wait& wait) {
  size_t end = wait.text().size();
  for (const char* next : {" at step ", " for ", ": "}) {
    end = std::min(end, wait.text().find(next));
  }
  return wait.text().substr(0, end);
}

}  // namespace

std::vector<std::string> StallLog::OnWaits(const proto::JobStatus& job,
                                           const std::vector<proto::Wait>& waits, absl::Time now) {
  const std::string name = absl::StrFormat("job %d (%s)", job.job_id(), job.name());
  std::vector<std::string> lines;
  const size_t longest = std::min(waits.size(), options_.lines_max);
  bool any = false;
  for (size_t i = 0; i < longest; ++i) {
    const proto::Wait& wait = waits[i];
    if (absl::Seconds(wait.seconds()) < options_.log_after) break;
    any = true;
    seconds_ = std::max(seconds_, wait.seconds());
    const auto [logged, is_new] = logged_at_.try_emplace(WaitKey(wait), now);
    if (!is_new && now - logged->second < options_.again_every) continue;
    logged->second = now;
    stalled_ = true;
    lines.push_back(absl::StrCat(name, " waits: ", wait.text()));
  }
  if (!any) {
    if (stalled_) {
      lines.push_back(
          absl::StrFormat("%s goes on, after it had waited for %d s", name, int64_t(seconds_)));
    }
    stalled_ = false;
    seconds_ = 0;
  }
  std::erase_if(logged_at_,
                [&](const auto& item) { return now - item.second >= 2 * options_.again_every; });
  return lines;
}

}  // namespace strata::server
