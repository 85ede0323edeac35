#include "tests/sim/checkpoints/store_checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/part_name.h"
#include "common/job/consistency.h"
#include "proto/record.pb.h"

namespace strata::sim {
namespace {

// The parts that a checkpoint of such a job consists of.
std::set<PartName> PartsOf(const proto::JobRecord& record) {
  std::set<PartName> parts;
  for (const uint32_t shard : record.placement().shard_of_chunk()) {
    parts.insert({.kind = PartKind::kShard, .number = shard});
  }
  if (!NodesKeepState(record.job())) return parts;
  for (const proto::LogicalNode& node : record.view().nodes()) {
    parts.insert({.kind = PartKind::kNode, .number = node.node()});
  }
  return parts;
}

std::string ManifestName(uint64_t clock) { return Checkpoints::ObjectName(clock, "manifest.json"); }

}  // namespace

void StoreChecker::OnCut(const std::string& object, std::string content) {
  cut_[object] = std::move(content);
}

std::map<uint64_t, Manifest> StoreChecker::Manifests() const {
  std::map<uint64_t, Manifest> manifests;
  for (const auto& [name, content] : disk_.Contents()) {
    if (!absl::EndsWith(name, "/manifest.json")) continue;
    absl::StatusOr<Manifest> manifest = ParseManifest(content, name);
    if (manifest.ok()) manifests[manifest->clock] = *std::move(manifest);
  }
  return manifests;
}

std::string StoreChecker::FaultIn(const Manifest& manifest) const {
  const std::map<std::string, std::string> contents = disk_.Contents();
  const std::set<std::string> damaged = disk_.Damaged();
  std::set<PartName> missing;
  proto::JobRecord record;
  if (!record.ParseFromString(manifest.record)) return "its record cannot be read";
  missing = PartsOf(record);
  for (const ObjectFacts& object : manifest.objects) {
    const std::optional<PartName> part = ParsePartName(object.name);
    if (part) missing.erase(*part);
    const auto found = contents.find(object.name);
    if (found == contents.end()) return absl::StrCat(object.name, " is not there");
    const auto cut = cut_.find(object.name);
    if (cut == cut_.end()) return absl::StrCat(object.name, " was never cut");
    if (found->second != cut->second && !damaged.contains(object.name)) {
      return absl::StrCat(object.name, " is not what was cut");
    }
  }
  if (missing.empty()) return "";
  return absl::StrFormat("%s %d is in no object", WordFor(missing.begin()->kind),
                         missing.begin()->number);
}

bool StoreChecker::IsDamaged(const Manifest& manifest) const {
  const std::set<std::string> damaged = disk_.Damaged();
  return damaged.contains(ManifestName(manifest.clock)) ||
         std::any_of(manifest.objects.begin(), manifest.objects.end(),
                     [&](const ObjectFacts& object) { return damaged.contains(object.name); });
}

bool StoreChecker::IsWhole(const Manifest& manifest) const {
  return !IsDamaged(manifest) && FaultIn(manifest).empty();
}

std::optional<uint64_t> StoreChecker::Newest() const {
  std::optional<uint64_t> newest;
  for (const auto& [clock, manifest] : Manifests()) {
    if (IsWhole(manifest)) newest = clock;
  }
  return newest;
}

std::string StoreChecker::Check() {
  const std::map<uint64_t, Manifest> manifests = Manifests();
  std::set<uint64_t> whole;
  for (const auto& [clock, manifest] : manifests) {
    const std::string fault = FaultIn(manifest);
    if (!fault.empty()) return absl::StrFormat("a manifest means whole objects: %s", fault);
    if (!IsDamaged(manifest)) whole.insert(clock);
  }
  const std::set<uint64_t> before = kept_;
  std::erase_if(kept_, [&](uint64_t clock) { return !whole.contains(clock); });
  if (!whole.empty() || before.empty()) return "";
  // What is damaged may be a newer one, for which the older one was given up.
  for (const std::string& name : disk_.Damaged()) {
    if (name >= Checkpoints::ObjectName(*before.begin(), "")) return "";
  }
  return absl::StrFormat("one stays whole: that of clock %d is gone, and there is no other",
                         *before.rbegin());
}

std::string StoreChecker::CheckKept(uint64_t clock, uint32_t keep, bool others_deleted) {
  const std::map<uint64_t, Manifest> manifests = Manifests();
  const auto own = manifests.find(clock);
  if (own == manifests.end()) {
    return absl::StrFormat("the newest are kept: clock %d is kept, but has no manifest", clock);
  }
  if (IsWhole(own->second)) kept_.insert(clock);
  if (!others_deleted || manifests.size() <= keep) return "";
  return absl::StrFormat("the newest are kept: %d manifests where %d are to be kept",
                         manifests.size(), keep);
}

std::string StoreChecker::CheckNamed(const absl::Status& refused) const {
  for (const std::string& name : disk_.Damaged()) {
    if (absl::StrContains(refused.message(), name)) return "";
  }
  return absl::StrCat("what is damaged is named: ", refused.message());
}

std::string StoreChecker::CheckPassedOver(const std::set<std::string>& damaged, uint64_t clock,
                                          const std::vector<std::string>& passed_over) {
  for (const std::string& name : damaged) {
    if (!absl::EndsWith(name, "/manifest.json") || name < ManifestName(clock)) continue;
    const bool is_named =
        std::any_of(passed_over.begin(), passed_over.end(),
                    [&](const std::string& one) { return absl::StrContains(one, name); });
    if (!is_named) return absl::StrCat("what is damaged is named: not ", name);
  }
  return "";
}

}  // namespace strata::sim
