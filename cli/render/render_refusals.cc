#include "cli/render/render_refusals.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/counted.h"

namespace strata::cli {
namespace {

// What causes name that can be counted; other causes say how something came.
constexpr const char* kNouns[] = {
    "broken seal",           "connection", "frame", "message", "registration", "rejected job",
    "rejected registration", "session"};

// "2 connections without a message", "12 malformed"
std::string CountedCause(const proto::Refusal& refusal) {
  const std::string& cause = refusal.cause();
  for (const absl::string_view noun : kNouns) {
    const absl::string_view rest = absl::StripPrefix(cause, noun);
    const bool is_it = rest.size() < cause.size() && (rest.empty() || rest.front() == ' ');
    if (is_it) return absl::StrCat(Counted(refusal.count(), std::string(noun)), rest);
  }
  return absl::StrCat(refusal.count(), " ", cause);
}

std::string Line(const proto::DaemonStatus& daemon) {
  std::vector<proto::Refusal> refusals(daemon.refusals().begin(), daemon.refusals().end());
  std::stable_sort(
      refusals.begin(), refusals.end(),
      [](const proto::Refusal& a, const proto::Refusal& b) { return a.count() > b.count(); });
  std::string causes;
  for (const proto::Refusal& refusal : refusals) {
    if (refusal.count() == 0) continue;
    absl::StrAppend(&causes, causes.empty() ? "" : ", ", CountedCause(refusal));
  }
  return causes.empty() ? "" : absl::StrCat("  refused by ", daemon.name(), ": ", causes, "\n");
}

}  // namespace

std::string RefusalsText(const proto::ListNodesReply& nodes) {
  std::string text = Line(nodes.coordinator());
  for (const auto& daemon : nodes.daemons()) absl::StrAppend(&text, Line(daemon));
  return text;
}

std::string RefusalsText(const proto::ListNodesReply& nodes, const proto::JobStatus& job) {
  std::set<std::string> names;
  for (const auto& node : job.nodes()) names.insert(node.daemon());
  for (const auto& shard : job.shards()) names.insert(shard.daemon());
  std::string text;
  for (const auto& daemon : nodes.daemons()) {
    if (names.contains(daemon.name())) absl::StrAppend(&text, Line(daemon));
  }
  return text;
}

}  // namespace strata::cli
