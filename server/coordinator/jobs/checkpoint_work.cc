#include "server/coordinator/jobs/checkpoint_work.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoints.h"
#include "server/coordinator/jobs/go_on.h"

namespace strata::server {
namespace {

constexpr char kManifest[] = "manifest.json";  // suffix of every manifest's name

// Returns "job 3 (mnist)" or "another job"; empty: only the query's job has checkpoints there.
std::string OtherOwner(const Checkpoints::Listing& listing, const CheckpointQuery& query) {
  for (const Manifest& manifest : listing.complete) {
    const absl::StatusOr<proto::JobRecord> record = RecordOf(manifest);
    const bool of_this = record.ok() && record->cluster() == query.cluster;
    if (of_this && manifest.job == query.job) continue;
    if (!query.named.Has(manifest.job, of_this)) return "another job";
    return absl::StrFormat("job %d (%s)%s", manifest.job, manifest.job_name,
                           of_this ? "" : " of another cluster");
  }
  return "";
}

absl::Status CheckOwnFolder(const CheckpointQuery& query, const StoreOpener& open) {
  if (query.own_dir.empty() || query.own_dir == query.resume_dir) return absl::OkStatus();
  const absl::StatusOr<std::unique_ptr<Store>> store = open(query.own_dir);
  if (absl::IsNotFound(store.status())) return absl::OkStatus();  // it will be created
  if (!store.ok()) return store.status();
  const absl::StatusOr<Checkpoints::Listing> listing = Checkpoints(**store).List();
  if (!listing.ok()) return listing.status();
  const std::string owner = OtherOwner(*listing, query);
  if (owner.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("checkpoint.dir: %s has checkpoints of %s: go on from them with --resume %s, "
                      "or name another folder",
                      query.own_dir, owner, query.own_dir));
}

// A server that sees another folder under that name finds nothing there, and reports it.
absl::Status DropDamaged(const Manifest& manifest, const CheckpointQuery& query,
                         Checkpoints& checkpoints) {
  const absl::Status whole = checkpoints.Verify(manifest);
  if (whole.ok()) {
    return absl::AbortedError(absl::StrFormat(
        "the checkpoint of step %d in %s is whole where the coordinator sees it, but a server "
        "or worker found it damaged: is it the same folder on all hosts?",
        manifest.clock, query.resume_dir));
  }
  return IsDamage(whole) ? checkpoints.Drop(manifest.clock) : whole;
}

// Deletes from a job's own folder the checkpoints that it will write again when it resumes from
// `from`, or, if that is null, starts over: old manifests would collide with new ones. Manifests of
// another format belong to another version and stay.
absl::Status DropUseless(const Manifest* from, const CheckpointQuery& query,
                         const Checkpoints::Listing& listing, Checkpoints& checkpoints) {
  const auto is_useless = [&](uint64_t clock) { return from == nullptr || clock > from->clock; };
  for (const Manifest& manifest : listing.complete) {
    if (!is_useless(manifest.clock)) continue;
    if (absl::Status dropped = DropDamaged(manifest, query, checkpoints); !dropped.ok()) {
      return dropped;
    }
  }
  for (const auto& [clock, why] : listing.broken) {
    if (!is_useless(clock) || !IsDamage(why)) continue;
    if (absl::Status dropped = checkpoints.Drop(clock); !dropped.ok()) return dropped;
  }
  return absl::OkStatus();
}

// Fails if an unreadable manifest may be that of a newer checkpoint than `newest`.
absl::Status CheckAllWereRead(const Checkpoints::Listing& listing, const Manifest* newest,
                              uint64_t below) {
  for (const auto& [clock, why] : listing.broken) {
    const bool matters =
        (below == 0 || clock < below) && (newest == nullptr || clock > newest->clock);
    const bool is_known = IsDamage(why) || absl::IsFailedPrecondition(why);  // another format
    if (matters && !is_known) return why;
  }
  return absl::OkStatus();
}

absl::Status NoneThere(const CheckpointQuery& query, const Checkpoints::Listing& listing) {
  std::string text = absl::StrCat("no complete checkpoint in ", query.resume_dir);
  if (query.below > 0) absl::StrAppend(&text, " of a step before ", query.below);
  if (!listing.broken.empty()) {
    absl::StrAppend(&text, ": ", listing.broken.rbegin()->second.message());
  } else if (!listing.clocks.empty() && listing.complete.empty()) {
    absl::StrAppend(&text, ": that of step ", *listing.clocks.rbegin(), " has no manifest");
  }
  return absl::NotFoundError(text);
}

bool IsOfSameJob(const Manifest& one, const Manifest& other) {
  const absl::StatusOr<proto::JobRecord> a = RecordOf(one), b = RecordOf(other);
  return one.job == other.job && a.ok() && b.ok() && a->cluster() == b->cluster();
}

// Returns whether the checkpoint already has its manifest. A completed checkpoint may be reported
// again to the next coordinator. The time of writing differs then, and possibly the record, because
// nodes join and leave.
bool IsCompleteAlready(const Manifest& manifest, Checkpoints& checkpoints) {
  const absl::StatusOr<Checkpoints::Listing> listing = checkpoints.List();
  if (!listing.ok()) return false;
  return std::any_of(listing->complete.begin(), listing->complete.end(), [&](const Manifest& one) {
    return one.clock == manifest.clock && one.objects == manifest.objects &&
           IsOfSameJob(one, manifest);
  });
}

// Returns the clock of a complete checkpoint of the job later than `manifest`; nullopt: none.
// `names`: of all objects in the store.
absl::StatusOr<std::optional<uint64_t>> FindLater(const Manifest& manifest,
                                                  const std::vector<std::string>& names,
                                                  Checkpoints& checkpoints) {
  const std::string own = Checkpoints::ObjectName(manifest.clock, kManifest);
  const bool may_be = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name > own && absl::EndsWith(name, kManifest);
  });
  if (!may_be) return std::nullopt;
  const absl::StatusOr<Checkpoints::Listing> listing = checkpoints.List();
  if (!listing.ok()) return listing.status();
  for (const Manifest& one : listing->complete) {
    if (one.clock > manifest.clock && IsOfSameJob(one, manifest)) return one.clock;
  }
  return std::nullopt;
}

absl::Status CheckObjectsAreThere(const CheckpointToKeep& checkpoint,
                                  const std::vector<std::string>& names, Checkpoints& checkpoints) {
  for (const ObjectFacts& object : checkpoint.manifest.objects) {
    if (std::binary_search(names.begin(), names.end(), object.name)) continue;
    const absl::StatusOr<std::optional<uint64_t>> later =
        FindLater(checkpoint.manifest, names, checkpoints);
    if (!later.ok()) return later.status();
    if (*later) {
      return absl::OutOfRangeError(
          absl::StrFormat("it is past: that of clock %d is complete, for which %s/%s was deleted",
                          **later, checkpoint.dir, object.name));
    }
    return absl::FailedPreconditionError(
        absl::StrFormat("%s/%s is not there, where a server or worker has written it: is it the "
                        "same folder on all hosts?",
                        checkpoint.dir, object.name));
  }
  return absl::OkStatus();
}

}  // namespace

std::string NormalFolder(const std::string& dir) {
  const bool is_path = absl::StartsWith(dir, "/");
  std::string normal = is_path ? std::filesystem::path(dir).lexically_normal().string() : dir;
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

absl::StatusOr<CheckpointFound> FindCheckpoint(const CheckpointQuery& query,
                                               const StoreOpener& open) {
  if (absl::Status own = CheckOwnFolder(query, open); !own.ok()) return own;
  if (query.resume_dir.empty()) return CheckpointFound();
  const absl::StatusOr<std::unique_ptr<Store>> store = open(query.resume_dir);
  if (!store.ok()) return store.status();
  Checkpoints checkpoints(**store);
  absl::StatusOr<Checkpoints::Listing> listing = checkpoints.List();
  if (!listing.ok()) return listing.status();
  const auto usable = [&](const Manifest& m) { return query.below == 0 || m.clock < query.below; };
  const auto newest = std::find_if(listing->complete.begin(), listing->complete.end(), usable);
  const bool is_found = newest != listing->complete.end();
  const absl::Status read = CheckAllWereRead(*listing, is_found ? &*newest : nullptr, query.below);
  if (!read.ok()) return read;
  if (query.resume_dir == query.own_dir && (is_found || query.or_begin)) {
    const absl::Status dropped =
        DropUseless(is_found ? &*newest : nullptr, query, *listing, checkpoints);
    if (!dropped.ok()) return dropped;
  }
  if (!is_found) return NoneThere(query, *listing);
  absl::StatusOr<proto::JobRecord> record = RecordOf(*newest);
  if (!record.ok()) return record.status();
  CheckpointFound found{.manifest = *newest, .record = *std::move(record)};
  for (const auto& [clock, why] : listing->broken) {
    if (clock > newest->clock) found.passed_over.emplace_back(why.message());
  }
  return found;
}

CheckpointToKeep MakeCheckpointToKeep(JobId id, const proto::Job& job, const std::string& record,
                                      const CheckpointLedger::Whole& whole, absl::Time now) {
  CheckpointToKeep checkpoint{.dir = job.checkpoint().dir(), .keep = job.checkpoint().keep()};
  Manifest& manifest = checkpoint.manifest;
  manifest = {.job = id.value(),
              .job_name = job.name(),
              .clock = whole.clock,
              .written = now,
              .record = record};
  for (const proto::CheckpointObject& object : whole.objects) {
    manifest.objects.push_back({.name = object.name(),
                                .bytes = object.bytes(),
                                .checksum = object.checksum(),
                                .buckets = {object.buckets().begin(), object.buckets().end()}});
  }
  return checkpoint;
}

absl::Status KeepCheckpoint(const CheckpointToKeep& checkpoint, const StoreOpener& open,
                            absl::Status* deleting) {
  const absl::StatusOr<std::unique_ptr<Store>> store = open(checkpoint.dir);
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::vector<std::string>> names = (*store)->List();
  if (!names.ok()) return names.status();
  Checkpoints checkpoints(**store);
  if (absl::Status there = CheckObjectsAreThere(checkpoint, *names, checkpoints); !there.ok()) {
    return there;
  }
  const absl::Status complete = checkpoints.Complete(checkpoint.manifest);
  const bool is_there =
      absl::IsAlreadyExists(complete) && IsCompleteAlready(checkpoint.manifest, checkpoints);
  if (!complete.ok() && !is_there) return complete;
  *deleting = checkpoints.Prune(checkpoint.keep);
  return absl::OkStatus();
}

}  // namespace strata::server
