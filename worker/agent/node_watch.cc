#include "worker/agent/node_watch.h"

namespace strata::worker {

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
