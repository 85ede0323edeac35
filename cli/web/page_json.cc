#include "cli/web/page_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/render/render.h"
#include "common/version.h"

namespace strata::cli {

namespace {

using Json = nlohmann::ordered_json;

// Losses of a job in the list of all.
constexpr size_t kSparkPoints = 40;

// NaN, infinities and what messages write as -1 have no number in JSON.
Json Known(double value) { return std::isfinite(value) ? Json(value) : Json(); }
Json NotNegative(double value) { return value < 0 ? Json() : Known(value); }

Json UnixMillis(absl::Time time) {
  return time == absl::InfinitePast() ? Json() : Json(absl::ToUnixMillis(time));
}

std::string Print(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns the fields with which each document begins.
Json Head(const ClusterScene& scene, absl::Time now) {
  return {{"now_ms", absl::ToUnixMillis(now)},
          {"taken_ms", UnixMillis(scene.taken)},
          {"problem", scene.problem}};
}

Json ShortJob(const JobScene& job) {
  const Json all = StatusJson(job.status);
  Json json;
  for (const char* name :
       {"job_id", "name", "state", "reason", "mode", "model", "exchange", "ranks", "owner",
        "namespace", "submitted_ms", "started_ms", "ended_ms", "progress", "waits"}) {
    json[name] = all[name];
  }
  json["spark"] = Json::array();
  const size_t points = job.course.size();
  for (size_t i = points - std::min(points, kSparkPoints); i < points; ++i) {
    if (std::isfinite(job.course[i].loss)) json["spark"].push_back(job.course[i].loss);
  }
  return json;
}

Json CourseJson(const std::vector<CoursePoint>& points) {
  Json json;
  for (const char* name :
       {"step", "elapsed_s", "loss", "samples_per_s", "waiting_share", "hidden_share",
        "test_accuracy", "lr", "bytes_pushed", "bytes_answered", "staleness"}) {
    json[name] = Json::array();
  }
  for (const CoursePoint& point : points) {
    json["step"].push_back(point.step);
    json["elapsed_s"].push_back(Known(point.elapsed_s));
    json["loss"].push_back(Known(point.loss));
    json["samples_per_s"].push_back(Known(point.samples_per_s));
    json["waiting_share"].push_back(Known(point.waiting_share));
    json["hidden_share"].push_back(NotNegative(point.hidden_share));
    json["test_accuracy"].push_back(NotNegative(point.test_accuracy));
    json["lr"].push_back(Known(point.lr));
    json["bytes_pushed"].push_back(point.bytes_pushed);
    json["bytes_answered"].push_back(point.bytes_answered);
    json["staleness"].push_back(point.staleness);
  }
  return json;
}

Json RankWindowsJson(const JobScene& job) {
  Json json = Json::array();
  for (const auto& [rank, windows] : job.ranks) {
    Json one = {{"rank", rank}};
    for (const char* name : {"end_step", "waiting_share", "samples_per_s"}) {
      one[name] = Json::array();
    }
    for (const RankWindow& window : windows) {
      one["end_step"].push_back(window.end_step);
      one["waiting_share"].push_back(Known(window.waiting_share));
      one["samples_per_s"].push_back(Known(window.samples_per_s));
    }
    json.push_back(std::move(one));
  }
  return json;
}

void AddEvents(const proto::JobStatus& job, Json* json) {
  Json restarts = Json::array(), replacements = Json::array(), changes = Json::array();
  for (const auto& one : job.restarts()) {
    restarts.push_back(
        {{"failed_ms", one.failed_ms()}, {"reason", one.reason()}, {"step", one.step()}});
  }
  for (const auto& one : job.replacements()) {
    replacements.push_back({{"lost_ms", one.lost_ms()},
                            {"node", one.node()},
                            {"from", one.from()},
                            {"to", one.to()},
                            {"reason", one.reason()},
                            {"step", one.step()}});
  }
  for (const auto& one : job.nodes_changes()) {
    changes.push_back({{"decided_ms", one.decided_ms()},
                       {"step", one.step()},
                       {"joined", std::vector<uint32_t>(one.joined().begin(), one.joined().end())},
                       {"left", std::vector<uint32_t>(one.left().begin(), one.left().end())},
                       {"ranks", one.ranks()},
                       {"reason", one.reason()}});
  }
  (*json)["restarts"] = std::move(restarts);
  (*json)["replacements"] = std::move(replacements);
  (*json)["nodes_changes"] = std::move(changes);
}

}  // namespace

std::string ClusterDocument(const ClusterScene& scene, bool has_logs, absl::Time now) {
  Json json = {{"version", STRATA_VERSION}};
  json.update(Head(scene, now));
  json["coordinator"] = scene.coordinator;
  const Json nodes = StatusJson(scene.nodes);
  json["security"] = nodes["security"];
  json["cluster_id"] = nodes["cluster_id"];
  json["daemons"] = nodes["daemons"];
  json["coordinator_resources"] = nodes["coordinator"]["resources"];
  json["coordinator_refusals"] = nodes["coordinator"]["refusals"];
  json["resources"] = nodes["resources"];
  json["has_logs"] = has_logs;
  json["jobs"] = Json::array();
  for (const auto& job : scene.jobs) json["jobs"].push_back(ShortJob(*job));
  return Print(json);
}

std::string JobDocument(const ClusterScene& scene, uint32_t job, absl::Time now) {
  const JobScene* const found = scene.Find(job);
  if (found == nullptr) return "";
  const JobScene& shown = *found;
  Json json = Head(scene, now);
  json["status"] = StatusJson(shown.status);
  AddEvents(shown.status, &json);
  json["watched_from_step"] = shown.watched_from_step;
  json["course"] = CourseJson(shown.course);
  json["rank_windows"] = RankWindowsJson(shown);
  return Print(json);
}

std::string DaemonDocument(const ClusterScene& scene, const std::string& name, absl::Time now) {
  const Json nodes = StatusJson(scene.nodes);
  for (const Json& daemon : nodes["daemons"]) {
    if (daemon["name"] != name) continue;
    Json json = Head(scene, now);
    json["daemon"] = daemon;
    json["jobs"] = Json::array();
    for (const auto& job : scene.jobs) {
      const Json& ids = daemon["jobs"];
      const bool runs_there = std::any_of(
          ids.begin(), ids.end(), [&](const Json& id) { return id == job->status.job_id(); });
      if (runs_there) json["jobs"].push_back(ShortJob(*job));
    }
    return Print(json);
  }
  return "";
}

std::string ErrorDocument(const std::string& text) { return Print({{"error", text}}); }

namespace {

using Json = nlohmann::ordered_json;

std::string Text(const LogChoice& choice) {
  if (choice.rank.has_value()) return absl::StrCat(choice.job, ":rank:", *choice.rank);
  return absl::StrCat(choice.job, choice.aggregators ? ":aggregators" : "");
}

}  // namespace

std::optional<LogChoice> ParseLogChoice(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  LogChoice choice;
  if (!absl::SimpleAtoi(parts[0], &choice.job)) return std::nullopt;
  if (parts.size() == 1) return choice;
  if (parts.size() == 2 && parts[1] == "aggregators") {
    choice.aggregators = true;
    return choice;
  }
  uint32_t rank = 0;
  if (parts.size() != 3 || parts[1] != "rank" || !absl::SimpleAtoi(parts[2], &rank)) {
    return std::nullopt;
  }
  choice.rank = rank;
  return choice;
}

std::string LogDocument(const LogChoice& choice, const LogNews& news) {
  Json json = {{"choice", Text(choice)}, {"anew", news.anew}, {"passed_over", news.passed_over}};
  json["lines"] = Json::array();
  for (const LogLine& line : news.lines) {
    Json one = Json::array({line.process, line.text});
    if (line.is_problem) one.push_back(true);
    json["lines"].push_back(std::move(one));
  }
  json["problem"] = news.problem;
  json["ended"] = news.ended;
  // Bytes that are not UTF-8 become U+FFFD.
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace strata::cli
