#include "common/checkpoint/checkpoints.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/require.h"

namespace strata {
namespace {

constexpr char kManifest[] = "manifest.json";
constexpr char kFolder[] = "clock-";

// As many digits as a clock can have, so that names sort like clocks.
std::string FolderName(uint64_t clock) { return absl::StrFormat("%s%020d", kFolder, clock); }

// Returns the clock of the checkpoint that an object belongs to; nullopt: none.
std::optional<uint64_t> ClockOf(const std::string& name) {
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, kFolder)) return std::nullopt;
  uint64_t clock = 0;
  const absl::string_view digits = rest.substr(0, rest.find('/'));
  if (!absl::SimpleAtoi(digits, &clock)) return std::nullopt;
  if (!absl::StartsWith(name, Checkpoints::ObjectName(clock, ""))) return std::nullopt;
  return clock;
}

}  // namespace

bool IsDamage(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
}

std::string Checkpoints::ObjectName(uint64_t clock, const std::string& part) {
  return absl::StrCat(FolderName(clock), "/", part);
}

absl::Status Checkpoints::Complete(const Manifest& manifest) {
  const std::string text = SerializeManifest(manifest);
  const absl::Span<const char> piece(text);
  return store_.PutNew(ObjectName(manifest.clock, kManifest), {&piece, 1});
}

absl::StatusOr<Manifest> Checkpoints::ReadManifest(const std::string& name) {
  absl::StatusOr<Bytes> content = store_.GetAtMost(name, kManifestBytesMax);
  if (!content.ok()) return content.status();
  const std::string path = absl::StrCat(store_.where(), "/", name);
  absl::StatusOr<Manifest> manifest =
      ParseManifest({reinterpret_cast<const char*>(content->data()), content->size()}, path);
  if (manifest.ok() && ObjectName(manifest->clock, kManifest) != name) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": it is the manifest of clock ", manifest->clock));
  }
  return manifest;
}

absl::StatusOr<Checkpoints::Listing> Checkpoints::List() {
  absl::StatusOr<std::vector<std::string>> names = store_.List();
  if (!names.ok()) return names.status();
  Listing listing;
  for (const std::string& name : *names) {
    const std::optional<uint64_t> clock = ClockOf(name);
    if (!clock) continue;
    listing.clocks.insert(*clock);
    if (name != ObjectName(*clock, kManifest)) continue;
    absl::StatusOr<Manifest> manifest = ReadManifest(name);
    if (manifest.ok()) {
      listing.complete.push_back(*std::move(manifest));
    } else {
      listing.broken[*clock] = manifest.status();
    }
  }
  std::sort(listing.complete.begin(), listing.complete.end(),
            [](const Manifest& a, const Manifest& b) { return a.clock > b.clock; });
  return listing;
}

absl::StatusOr<Manifest> Checkpoints::Newest(std::vector<absl::Status>* passed_over) {
  absl::StatusOr<Listing> listing = List();
  if (!listing.ok()) return listing.status();
  for (const auto& [clock, status] : listing->broken) passed_over->push_back(status);
  for (Manifest& manifest : listing->complete) {
    const absl::Status status = Verify(manifest);
    if (status.ok()) return std::move(manifest);
    passed_over->push_back(status);
  }
  return absl::NotFoundError(absl::StrCat(store_.where(), ": no complete checkpoint"));
}

absl::StatusOr<Bytes> Checkpoints::Read(const ObjectFacts& object) {
  absl::StatusOr<Bytes> content = store_.GetAtMost(object.name, object.bytes);
  if (absl::IsInvalidArgument(content.status())) {
    return absl::DataLossError(
        absl::StrCat(content.status().message(), ", as many as its manifest says"));
  }
  if (!content.ok()) return content.status();
  if (absl::Status status = CheckSize(object, content->size()); !status.ok()) return status;
  const absl::Span<const char> piece(reinterpret_cast<const char*>(content->data()),
                                     content->size());
  absl::Status same = CheckSum(object, FactsOf(object.name, {&piece, 1}).checksum);
  return same.ok() ? std::move(content) : same;
}

absl::Status Checkpoints::Read(const ObjectFacts& object, const Store::TakePiece& take) {
  ObjectSum sum;
  absl::Status taken;
  const absl::Status read =
      store_.Read(object.name, [&](uint64_t size, absl::Span<const char> piece) {
        if (absl::Status status = CheckSize(object, size); !status.ok()) return status;
        sum.Add(piece);
        if (taken.ok()) taken = take(size, piece);
        // Wrong content may mean damage, which the checksum then shows.
        return absl::IsInvalidArgument(taken) ? absl::OkStatus() : taken;
      });
  if (!read.ok()) return read;
  absl::Status same = CheckSum(object, sum.Value());
  return same.ok() ? taken : same;
}

absl::Status Checkpoints::CheckSize(const ObjectFacts& object, uint64_t bytes) const {
  if (bytes == object.bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat("%s/%s: %d bytes, its manifest says %d",
                                             store_.where(), object.name, bytes, object.bytes));
}

absl::Status Checkpoints::CheckSum(const ObjectFacts& object, uint64_t checksum) const {
  if (checksum == object.checksum) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat("%s/%s: checksum %016x, its manifest says %016x",
                                             store_.where(), object.name, checksum,
                                             object.checksum));
}

absl::Status Checkpoints::Verify(const Manifest& manifest) {
  for (const ObjectFacts& object : manifest.objects) {
    const absl::Status status =
        Read(object, [](uint64_t, absl::Span<const char>) { return absl::OkStatus(); });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Checkpoints::Drop(uint64_t clock) {
  absl::Status status = store_.Delete(ObjectName(clock, kManifest));
  return status.ok() ? store_.DeleteFolder(FolderName(clock)) : status;
}

absl::Status Checkpoints::Prune(uint32_t keep) {
  STRATA_REQUIRE(keep >= 1);
  absl::StatusOr<Listing> listing = List();
  if (!listing.ok()) return listing.status();
  if (listing->complete.empty()) return absl::OkStatus();
  std::set<uint64_t> kept;
  for (size_t i = 0; i < std::min<size_t>(keep, listing->complete.size()); ++i) {
    kept.insert(listing->complete[i].clock);
  }
  for (const auto& [clock, status] : listing->broken) kept.insert(clock);
  for (const uint64_t clock : listing->clocks) {
    if (clock >= listing->complete[0].clock || kept.contains(clock)) continue;
    if (absl::Status status = Drop(clock); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Checkpoints::DropAfter(uint64_t clock) {
  absl::StatusOr<std::vector<std::string>> names = store_.List();
  if (!names.ok()) return names.status();
  std::set<uint64_t> later;
  for (const std::string& name : *names) {
    const std::optional<uint64_t> its = ClockOf(name);
    if (its && *its > clock) later.insert(*its);
  }
  for (const uint64_t one : later) {
    if (absl::Status status = Drop(one); !status.ok()) return status;
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<ObjectFacts> ObjectAt(const proto::Resume& resume, uint32_t index) {
  if (index >= static_cast<uint32_t>(resume.objects_size())) {
    return absl::InvalidArgumentError(
        absl::StrFormat("object %d of the checkpoint's %d", index, resume.objects_size()));
  }
  const proto::CheckpointObject& object = resume.objects(static_cast<int>(index));
  return ObjectFacts{.name = object.name(),
                     .bytes = object.bytes(),
                     .checksum = object.checksum(),
                     .buckets = {object.buckets().begin(), object.buckets().end()}};
}

}  // namespace

absl::StatusOr<ResumeObject> ReadResumeObject(const proto::Resume& resume, uint32_t index,
                                              Store& store) {
  const absl::StatusOr<ObjectFacts> object = ObjectAt(resume, index);
  if (!object.ok()) return object.status();
  absl::StatusOr<Bytes> content = Checkpoints(store).Read(*object);
  if (!content.ok()) return content.status();
  return ResumeObject{.content = *std::move(content),
                      .path = absl::StrCat(store.where(), "/", object->name)};
}

absl::Status ReadResumeObject(const proto::Resume& resume, uint32_t index, Store& store,
                              const Store::TakePiece& take) {
  const absl::StatusOr<ObjectFacts> object = ObjectAt(resume, index);
  return object.ok() ? Checkpoints(store).Read(*object, take) : object.status();
}

}  // namespace strata
