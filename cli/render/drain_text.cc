#include "cli/render/drain_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/counted.h"

namespace strata::cli {
namespace {

// "job 3 (lenet)"
std::string NameOf(const proto::DrainedJob& job) {
  return absl::StrCat("job ", job.job_id(), " (", job.name(), ")");
}

}  // namespace

uint32_t DrainLeft(const proto::DrainReply& told) {
  return told.role() == proto::WORKER ? told.nodes_left() : told.shards_left();
}

std::string DrainText(const std::string& daemon, const proto::DrainReply& told) {
  if (!told.draining()) {
    return absl::StrCat(daemon, " is back in service", told.note().empty() ? "" : ": ", told.note(),
                        "\n");
  }
  const char* const what = told.role() == proto::WORKER ? "node" : "shard";
  std::string text =
      told.drained() ? absl::StrCat(daemon, " is drained: nothing is left there\n")
                     : absl::StrCat(daemon, " is being drained: ", Counted(DrainLeft(told), what),
                                    " of ", Counted(told.jobs_size(), "job"), " to go\n");
  for (const proto::DrainedJob& job : told.jobs()) {
    if (job.stays().empty()) continue;
    absl::StrAppend(&text, "  ", NameOf(job), " stays for now: ", job.stays(), "\n");
  }
  if (!told.note().empty()) absl::StrAppend(&text, "  ", told.note(), "\n");
  return text;
}

std::string DrainProgress(const std::string& daemon, uint32_t all, const proto::DrainReply& told) {
  const bool is_worker = told.role() == proto::WORKER;
  // More may have come from jobs that were just starting.
  const uint32_t left = DrainLeft(told), of = std::max(all, left);
  std::string text =
      absl::StrCat(daemon, ": ", of - left, " of ", Counted(of, is_worker ? "node" : "shard"),
                   is_worker ? " ended" : " moved");
  for (const proto::DrainedJob& job : told.jobs()) {
    if (job.stays().empty()) continue;
    return absl::StrCat(text, "; ", NameOf(job), " stays for now: ", job.stays());
  }
  return text;
}

}  // namespace strata::cli
