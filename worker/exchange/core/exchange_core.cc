#include "worker/exchange/core/exchange_core.h"

#include "absl/strings/str_cat.h"
#include "common/diverged.h"
#include "common/job/job.h"
#include "common/job/views.h"

namespace strata::worker {

bool TakesFirstWeights(const proto::JobRecord& record, NodeId node) {
  if (record.has_resume()) return true;
  if (!record.takes_first_weights()) return false;
  const auto& nodes = record.view().nodes();
  return std::any_of(nodes.begin(), nodes.end(), [node](const proto::LogicalNode& each) {
    return each.node() == node.value() && each.first_rank() > 0;
  });
}

bool Rejoins(const proto::JobRecord& record, NodeId node, uint32_t incarnation) {
  if (incarnation > 1 && record.job().has_replace()) return true;
  const absl::StatusOr<Views> views = Views::Of(record);
  return views.ok() && (views->JoinedAt(node) > 0 || views->Lacks(node, views->first_clock()));
}

LinkIdentity MakeIdentity(const CoreOptions& options) {
  const proto::JobRecord& record = options.record;
  LinkIdentity identity;
  identity.job = record.job_id();
  identity.view = record.view().number();
  identity.generation = record.placement().generation();
  identity.node = options.node.value();
  identity.incarnation = options.incarnation;
  identity.hello.protocol = kProtocolVersion;
  identity.hello.cluster = record.cluster();
  identity.hello.token = record.token();
  return identity;
}

absl::Status NamedBy(NodeId node, const absl::Status& status) {
  if (status.ok()) return status;
  return Prefixed(absl::StrCat("node ", node.value(), ": "), status);
}

}  // namespace strata::worker
