#include "worker/agent/node_life.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/require.h"

namespace strata::worker {

namespace {

// Others sent the signal, so the log's last line does not say why it ended.
bool WasEndedByOthers(const ExitStatus& status) {
  return status.signal == SIGKILL || status.signal == SIGTERM || status.signal == SIGINT ||
         status.signal == SIGHUP;
}

// Adds what to do where a program's last words are those of a Python without Strata's package. Such
// a Python takes any folder named strata beside the script for it, as a clone of the sources.
std::string WithHint(const std::string& words) {
  const auto begins = [&words](absl::string_view start) { return absl::StartsWith(words, start); };
  const bool has_no_package = begins("ModuleNotFoundError: No module named 'strata'") ||
                              begins("ModuleNotFoundError: No module named 'strata.");
  const bool has_a_folder = begins("AttributeError: module 'strata' has no attribute ") ||
                            (begins("ImportError: cannot import name ") &&
                             absl::StrContains(words, " from 'strata' (unknown location)"));
  if (!has_no_package && !has_a_folder) return words;
  return absl::StrCat(words,
                      "; is the wheel installed in this Python? deploy/wheel.sh makes it for pip "
                      "install (a folder named strata, such as a clone, is not the package)");
}

}  // namespace

NodeLife::NodeLife(std::string daemon, uint32_t node, uint32_t first_rank, int ranks,
                   bool aggregator)
    : daemon_(std::move(daemon)),
      node_(node),
      first_rank_(first_rank),
      ranks_(ranks),
      children_(ranks + (aggregator ? 1 : 0)) {}

std::string NodeLife::ChildName(int child) const {
  return absl::StrCat(WhoIs(child), " (node ", node_, ", ", daemon_, ")");
}

std::string NodeLife::ProcessName(int child) const {
  return absl::StrCat("node ", node_, " ", WhoIs(child));
}

std::string NodeLife::WhoIs(int child) const {
  return is_aggregator(child) ? "aggregator" : absl::StrCat("rank ", first_rank_ + child);
}

void NodeLife::OnFailedLine(int child, const std::string& line, bool has_diverged) {
  has_diverged_ = has_diverged_ || has_diverged;
  if (children_[child].said_line) return;
  children_[child].said_line = true;
  symptoms_.push_back({Kind::kLine, child, line});
}

void NodeLife::OnLostRank(uint32_t local_rank, const std::string& line) {
  if (local_rank >= static_cast<uint32_t>(ranks_)) return OnFailedLine(ranks_, line);
  if (lost_) return;
  lost_ = static_cast<int>(local_rank);
  symptoms_.push_back({Kind::kLost, ranks_, line});
}

void NodeLife::OnExit(int child, const ExitStatus& status, const std::string& log_tail) {
  children_[child].gone = true;
  if (status.ok()) return;
  std::string text = status.ToString();
  if (!log_tail.empty() && !WasEndedByOthers(status)) {
    absl::StrAppend(&text, ": ", WithHint(log_tail));
  }
  const Kind kind = status.signal != 0 ? Kind::kSignal : Kind::kExit;
  symptoms_.push_back({kind, child, text, status.signal});
}

bool NodeLife::gone() const {
  return std::all_of(children_.begin(), children_.end(), [](const Child& c) { return c.gone; });
}

bool NodeLife::awaits_cause() const {
  return lost_ && !children_[*lost_].gone &&
         std::none_of(symptoms_.begin(), symptoms_.end(),
                      [](const Symptom& s) { return s.kind < Kind::kLost; });
}

bool NodeLife::only_aggregator_left() const {
  if (failed() || gone()) return false;
  return std::all_of(children_.begin(), children_.begin() + ranks_,
                     [](const Child& c) { return c.gone; });
}

NodeLife::Kind NodeLife::Classify(const Symptom& symptom) const {
  // It was about to exit anyway, and something went wrong at its exit.
  if (symptom.kind == Kind::kSignal && children_[symptom.child].said_line) return Kind::kExit;
  const bool lost_ranks = symptom.kind == Kind::kExit && symptom.child == lost_;
  return lost_ranks ? Kind::kLostRanksExit : symptom.kind;
}

const NodeLife::Symptom& NodeLife::Cause() const {
  STRATA_REQUIRE(failed());
  return *std::min_element(
      symptoms_.begin(), symptoms_.end(),
      [this](const Symptom& a, const Symptom& b) { return Classify(a) < Classify(b); });
}

std::string NodeLife::Reason() const {
  const Symptom& cause = Cause();
  return absl::StrCat(ChildName(cause.child), ": ", cause.text);
}

bool NodeLife::is_death() const {
  const Symptom& cause = Cause();
  if (Classify(cause) != Kind::kSignal || cause.signal == SIGABRT) return false;
  // Processes that lose the aggregator complain, as do those that hear of a rank that the
  // aggregator has lost.
  const auto explains_lines = [this](const Symptom& s) {
    return Classify(s) == Kind::kSignal && (is_aggregator(s.child) || lost_ == s.child);
  };
  return std::any_of(symptoms_.begin(), symptoms_.end(), explains_lines) ||
         std::none_of(symptoms_.begin(), symptoms_.end(),
                      [](const Symptom& s) { return s.kind == Kind::kLine; });
}

NodeWatch::NodeWatch(uint32_t job, const proto::LogicalNode& node, bool aggregator, absl::Time now)
    : aggregator_(aggregator), heard_at_(now) {
  newest_.set_job_id(job);
  newest_.set_node(node.node());
  newest_.set_phase("starting");
  for (uint32_t i = 0; i < node.ranks(); ++i) {
    newest_.add_ranks()->set_rank(node.first_rank() + i);
  }
}

void NodeWatch::OnActivity(const proto::NodeActivity& activity, absl::Time now) {
  if (!aggregator_ || activity.ranks_size() != newest_.ranks_size()) return;  // not one of ours
  const uint32_t job = newest_.job_id(), node = newest_.node();
  newest_ = activity;
  newest_.set_job_id(job);
  newest_.set_node(node);
  heard_at_ = now;
}

void NodeWatch::OnRefusals(const proto::NodeRefusals& refusals) {
  if (!aggregator_) return;
  for (const proto::Refusal& refusal : refusals.refusals()) {
    endpoint_refusals_[refusal.cause()] = refusal.count();
  }
}

transport::Refusals NodeWatch::refusals() const {
  transport::Refusals refusals = endpoint_refusals_;
  if (newest_.refused() > 0) refusals["no rank, on a node's socket"] = newest_.refused();
  return refusals;
}

void NodeWatch::OnReady(absl::Time now) {
  if (aggregator_) return;
  newest_.set_phase("training");
  heard_at_ = now;
}

void NodeWatch::OnReport(const proto::RankReport& report, absl::Time now) {
  if (aggregator_ || newest_.ranks().empty()) return;
  newest_.mutable_ranks(0)->set_clock(report.end_step());
  heard_at_ = now;
}

proto::NodeActivity NodeWatch::Now(const StateOf& state_of, absl::Time now) const {
  proto::NodeActivity activity = newest_;
  const int64_t age_ms = absl::ToInt64Milliseconds(now - heard_at_);
  for (int r = 0; r < activity.ranks_size(); ++r) {
    activity.mutable_ranks(r)->set_process_state(state_of(r));
    if (!aggregator_) activity.mutable_ranks(r)->set_idle_ms(age_ms);
  }
  if (!aggregator_) return activity;
  activity.set_process_state(state_of(activity.ranks_size()));
  activity.set_silent_ms(age_ms);
  return activity;
}

}  // namespace strata::worker
