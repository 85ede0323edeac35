#include "worker/agent/node_life.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::worker {

NodeLife::NodeLife(std::string daemon, uint32_t node, uint32_t first_rank, int ranks,
                   bool aggregator)
    : daemon_(std::move(daemon)),
      node_(node),
      first_rank_(first_rank),
      ranks_(ranks),
      children_(ranks + (aggregator ? 1 : 0)) {}

std::string NodeLife::NameOf(int child) const {
  std::string who =
      is_aggregator(child) ? std::string("aggregator") : absl::StrCat("rank ", first_rank_ + child);
  return absl::StrCat(who, " (node ", node_, ", ", daemon_, ")");
}

void NodeLife::OnFailedLine(int child, const std::string& line) {
  if (children_[child].said_line) return;
  children_[child].said_line = true;
  symptoms_.push_back({Kind::kLine, child, line});
}

void NodeLife::OnExit(int child, const ExitStatus& status, const std::string& log_tail) {
  children_[child].gone = true;
  if (status.ok()) return;
  std::string text = status.ToString();
  if (!log_tail.empty()) absl::StrAppend(&text, ": ", log_tail);
  const Kind exit = is_aggregator(child) ? Kind::kAggregatorsExit : Kind::kRanksExit;
  symptoms_.push_back({status.signal != 0 ? Kind::kSignal : exit, child, text});
}

bool NodeLife::gone() const {
  return std::all_of(children_.begin(), children_.end(), [](const Child& c) { return c.gone; });
}

bool NodeLife::only_aggregator_left() const {
  if (failed() || gone()) return false;
  return std::all_of(children_.begin(), children_.begin() + ranks_,
                     [](const Child& c) { return c.gone; });
}

std::string NodeLife::Reason() const {
  auto first = std::min_element(symptoms_.begin(), symptoms_.end(),
                                [](const Symptom& a, const Symptom& b) { return a.kind < b.kind; });
  return absl::StrCat(NameOf(first->child), ": ", first->text);
}

}  // namespace strata::worker
