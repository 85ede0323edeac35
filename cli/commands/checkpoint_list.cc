#include "cli/commands/checkpoint_list.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "cli/render/progress.h"
#include "cli/render/table.h"
#include "common/checkpoint/checkpoints.h"
#include "common/counted.h"

namespace strata::cli {

namespace {

// Returns what an error says, without the folder that it says it of.
std::string WithoutFolder(const absl::Status& status, const std::string& folder) {
  const std::string text(status.message());
  return std::string(absl::StripPrefix(text, folder));
}

// Describes a checkpoint without a manifest. All checkpoints of a job have the same number of
// objects, `usual`; 0: not known.
std::string WhatIsWritten(uint64_t objects, uint64_t usual) {
  const std::string of = usual > 0 ? absl::StrCat(" of ", usual) : "";
  return absl::StrCat(Counted(objects, "object"), of, ", no manifest");
}

// Returns the first missing object; empty: nothing is missing.
std::string Missing(const Manifest& manifest, const std::set<std::string>& names) {
  for (const ObjectFacts& object : manifest.objects) {
    if (!names.contains(object.name)) return object.name;
  }
  return "";
}

}  // namespace

uint64_t BytesOf(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const ObjectFacts& object : manifest.objects) bytes += object.bytes;
  return bytes;
}

std::string NameOf(CheckpointState state) {
  switch (state) {
    case CheckpointState::kComplete:
      return "complete";
    case CheckpointState::kIncomplete:
      return "incomplete";
    case CheckpointState::kBroken:
      return "broken";
  }
  return "";
}

absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(Store& store) {
  absl::StatusOr<Checkpoints::Listing> listing = Checkpoints(store).List();
  if (!listing.ok()) return listing.status();
  // After the manifests: what those name is there by then.
  absl::StatusOr<std::vector<std::string>> list = store.List();
  if (!list.ok()) return list.status();
  const std::set<std::string> names(list->begin(), list->end());
  std::map<uint64_t, Manifest> manifests;
  for (Manifest& manifest : listing->complete) {
    const uint64_t clock = manifest.clock;
    manifests.emplace(clock, std::move(manifest));
  }
  const uint64_t usual = manifests.empty() ? 0 : manifests.rbegin()->second.objects.size();
  std::vector<CheckpointEntry> entries;
  for (const uint64_t clock : listing->clocks) {
    const std::string folder = Checkpoints::ObjectName(clock, "");
    CheckpointEntry entry = {.clock = clock};
    entry.objects = std::count_if(names.begin(), names.end(), [&](const std::string& name) {
      return absl::StartsWith(name, folder);
    });
    const auto found = manifests.find(clock);
    const auto broken = listing->broken.find(clock);
    if (found != manifests.end() || broken != listing->broken.end()) {
      entry.objects -= std::min<uint64_t>(entry.objects, 1);  // the manifest
    }
    if (found != manifests.end()) {
      const std::string missing = Missing(found->second, names);
      entry.state = missing.empty() ? CheckpointState::kComplete : CheckpointState::kBroken;
      if (!missing.empty()) {
        entry.why = absl::StrCat(absl::StripPrefix(missing, folder), ": is not there");
      }
      entry.manifest = std::move(found->second);
    } else if (broken != listing->broken.end()) {
      entry.state = CheckpointState::kBroken;
      entry.why = WithoutFolder(broken->second, absl::StrCat(store.where(), "/", folder));
    } else {
      entry.why = WhatIsWritten(entry.objects, usual);
    }
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) {
    return absl::NotFoundError(absl::StrCat(store.where(), ": no checkpoint there"));
  }
  return entries;
}

absl::StatusOr<CheckpointEntry> FindCheckpoint(const std::vector<CheckpointEntry>& entries,
                                               uint64_t clock, const std::string& where) {
  for (const CheckpointEntry& entry : entries) {
    if (entry.clock == clock) return entry;
  }
  const std::string steps = absl::StrJoin(
      entries, ", ",
      [](std::string* out, const CheckpointEntry& entry) { absl::StrAppend(out, entry.clock); });
  return absl::NotFoundError(
      absl::StrCat(where, ": no checkpoint of step ", clock, "; there are those of ", steps));
}

namespace {

using Json = nlohmann::ordered_json;

std::string StateText(const CheckpointEntry& entry) {
  const std::string state = NameOf(entry.state);
  return entry.why.empty() ? state : absl::StrCat(state, ": ", entry.why);
}

}  // namespace

std::string CheckpointsText(const std::vector<CheckpointEntry>& entries) {
  std::vector<Row> rows = {{"step", "job", "name", "written", "size", "objects", "state"}};
  for (const CheckpointEntry& entry : entries) {
    Row row = {absl::StrCat(entry.clock), "-", "-", "-", "-", absl::StrCat(entry.objects)};
    if (entry.manifest) {
      const Manifest& manifest = *entry.manifest;
      row[1] = absl::StrCat(manifest.job);
      row[2] = manifest.job_name;
      row[3] = TimeText(manifest.written);
      row[4] = FormatBytes(static_cast<double>(BytesOf(manifest)));
    }
    row.push_back(StateText(entry));
    rows.push_back(row);
  }
  return Table(rows);
}

std::string CheckpointsJson(const std::vector<CheckpointEntry>& entries) {
  Json list = Json::array();
  for (const CheckpointEntry& entry : entries) {
    Json json = {{"step", entry.clock},          {"job_id", nullptr}, {"name", nullptr},
                 {"written", nullptr},           {"bytes", nullptr},  {"objects", entry.objects},
                 {"state", NameOf(entry.state)}, {"why", entry.why}};
    if (entry.manifest) {
      const Manifest& manifest = *entry.manifest;
      json["job_id"] = manifest.job;
      json["name"] = manifest.job_name;
      json["written"] = absl::FormatTime(absl::RFC3339_sec, manifest.written, absl::UTCTimeZone());
      json["bytes"] = BytesOf(manifest);
    }
    list.push_back(json);
  }
  return list.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace strata::cli
