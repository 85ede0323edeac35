#include "cli/checkpoint/render_checkpoints.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/render/progress.h"
#include "cli/render/table.h"

namespace strata::cli {
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
