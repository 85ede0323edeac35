#include "cli/web/site.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "cli/web/exposition.h"
#include "cli/web/page_json.h"
#include "common/control/coordinator_client.h"

namespace strata::cli {
namespace {

constexpr char kJson[] = "application/json; charset=utf-8";
constexpr char kNoSession[] = "no session: open the link that strata web prints";
// Jobs whose news one reader may want at once.
constexpr size_t kJobsOfStreamMax = 4;

HttpAnswer JsonAnswer(int status, SharedText text) {
  return {.status = status, .type = kJson, .body = std::move(text)};
}

HttpAnswer JsonError(int status, const std::string& text) {
  return JsonAnswer(status, std::make_shared<const std::string>(ErrorDocument(text)));
}

// "[::1]:8265", "head:8265", "head" without their ports.
std::string WithoutPort(const std::string& header) {
  const size_t colon = header.rfind(':');
  const bool is_in_brackets = colon != std::string::npos && colon < header.rfind(']');
  return is_in_brackets && absl::EndsWith(header, "]") ? header : header.substr(0, colon);
}

bool IsAddress(const std::string& host) {
  in_addr four;
  in6_addr six;
  const bool in_brackets = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  return inet_pton(AF_INET, host.c_str(), &four) == 1 ||
         (in_brackets && inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &six) == 1);
}

// Decodes "%20" and the like in a path; returns it unchanged if an escape is malformed.
std::string Unescape(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string digits = text.substr(i, 3);
    std::string byte;
    const bool is_escape = digits.size() == 3 && digits[0] == '%' &&
                           absl::ascii_isxdigit(digits[1]) && absl::ascii_isxdigit(digits[2]);
    if (!is_escape) {
      plain += text[i];
      continue;
    }
    plain += absl::HexStringToBytes(digits.substr(1));
    i += 2;
  }
  return plain;
}

// The jobs of "job=3&job=5".
std::vector<uint32_t> JobsOf(const std::string& query) {
  std::vector<uint32_t> jobs;
  for (absl::string_view part : absl::StrSplit(query, '&')) {
    uint32_t job = 0;
    if (!absl::ConsumePrefix(&part, "job=") || !absl::SimpleAtoi(part, &job)) continue;
    if (jobs.size() < kJobsOfStreamMax) jobs.push_back(job);
  }
  return jobs;
}

// The log of "log=3:rank:1".
std::optional<LogChoice> LogOf(const std::string& query) {
  for (absl::string_view part : absl::StrSplit(query, '&')) {
    if (absl::ConsumePrefix(&part, "log=")) return ParseLogChoice(Unescape(std::string(part)));
  }
  return std::nullopt;
}

void AppendEvent(const char* name, const std::string& data, std::string* text) {
  absl::StrAppend(text, "event: ", name, "\ndata: ", data, "\n\n");
}

}  // namespace

bool IsHostAllowed(const std::string& header, const std::vector<std::string>& hosts) {
  const std::string host = WithoutPort(header);
  if (IsAddress(host) || absl::EqualsIgnoreCase(host, "localhost")) return true;
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& allowed) {
    return absl::EqualsIgnoreCase(host, allowed);
  });
}

Site::Site(Options options, Page page) : options_(std::move(options)), page_(std::move(page)) {}

std::vector<std::pair<std::string, std::string>> Site::Headers() const {
  return {{"Content-Security-Policy", page_.policy},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

HttpAnswer Site::Answer(const HttpRequest& request, absl::Time now) {
  if (!IsHostAllowed(request.host, options_.hosts)) {
    return TextAnswer(421, "this name is not one that strata web was told of (--allow-host)");
  }
  if (request.method == "POST" && request.path == "/login") return LogIn(request, now);
  if (request.method != "GET" && request.method != "HEAD") {
    HttpAnswer answer = TextAnswer(405, "strata web shows and changes nothing");
    answer.headers.emplace_back("Allow", "GET, HEAD");
    return answer;
  }
  if (request.path == "/healthz") return TextAnswer(200, "ok");
  if (request.path == "/" || request.path == "/chart.js") return ShowPage(request);
  if (request.path == "/metrics") {
    if (!MayScrape(request, now)) {
      return TextAnswer(401,
                        "start strata web with --metrics-token-file, and say \"Authorization: "
                        "Bearer TOKEN\"");
    }
    return {.type = kExpositionType,
            .body = std::make_shared<const std::string>(options_.metrics(*options_.scene(), now))};
  }
  if (!absl::StartsWith(request.path, "/api/")) return TextAnswer(404, "there is nothing here");
  return MayLook(request, now) ? Api(request, now) : JsonError(401, kNoSession);
}

bool Site::MayLook(const HttpRequest& request, absl::Time now) const {
  return !options_.needs_login || login_.IsOpen(CookieValue(request.cookie, options_.cookie), now);
}

bool Site::MayScrape(const HttpRequest& request, absl::Time now) const {
  absl::string_view token = request.authorization;
  const bool has_token = absl::ConsumePrefix(&token, "Bearer ") &&
                         !options_.metrics_token.empty() &&
                         SameSecret(token, options_.metrics_token);
  return has_token || MayLook(request, now);
}

HttpAnswer Site::LogIn(const HttpRequest& request, absl::Time now) {
  // A page of somebody else names itself here.
  const std::string own = absl::StrCat(options_.has_tls ? "https://" : "http://", request.host);
  if (!request.origin.empty() && request.origin != own) {
    return TextAnswer(403, "this link is opened by another page");
  }
  const std::string secret = login_.Open(request.body, now);
  if (secret.empty()) {
    return TextAnswer(401,
                      "this link has been used, or is another one: open the newest link that "
                      "strata web has printed");
  }
  options_.on_new_token(login_.token());
  HttpAnswer answer = TextAnswer(200, "ok");
  answer.headers.emplace_back("Set-Cookie", absl::StrCat(options_.cookie, "=", secret,
                                                         "; HttpOnly; SameSite=Strict; Path=/",
                                                         options_.has_tls ? "; Secure" : ""));
  return answer;
}

HttpAnswer Site::ShowPage(const HttpRequest& request) const {
  const bool is_page = request.path == "/";
  HttpAnswer answer;
  answer.type = is_page ? "text/html; charset=utf-8" : "text/javascript; charset=utf-8";
  if (!is_page) {
    answer.headers = {{"ETag", page_.chart_js_tag}, {"Cache-Control", "private, no-cache"}};
    if (request.if_none_match == page_.chart_js_tag) {
      answer.status = 304;
      return answer;
    }
  }
  answer.headers.emplace_back("Vary", "Accept-Encoding");
  if (request.accepts_gzip) answer.headers.emplace_back("Content-Encoding", "gzip");
  answer.body = is_page ? (request.accepts_gzip ? page_.html_gzip : page_.html)
                        : (request.accepts_gzip ? page_.chart_js_gzip : page_.chart_js);
  return answer;
}

HttpAnswer Site::Api(const HttpRequest& request, absl::Time now) {
  if (request.path == "/api/events") return Events(request);
  const std::shared_ptr<const ClusterScene> scene = options_.scene();
  absl::string_view rest = request.path;
  if (rest == "/api/cluster") return JsonAnswer(200, ClusterOf(scene, now));
  if (absl::ConsumePrefix(&rest, "/api/jobs/")) {
    uint32_t job = 0;
    const SharedText text = absl::SimpleAtoi(rest, &job) ? JobOf(scene, job, now) : nullptr;
    if (text != nullptr) return JsonAnswer(200, text);
    return JsonError(404, absl::StrCat("there is no job ", Unescape(std::string(rest))));
  }
  if (absl::ConsumePrefix(&rest, "/api/daemons/")) {
    const std::string name = Unescape(std::string(rest));
    std::string text = DaemonDocument(*scene, name, now);
    if (!text.empty()) return JsonAnswer(200, std::make_shared<const std::string>(std::move(text)));
    return JsonError(404, absl::StrCat("there is no daemon ", name));
  }
  return JsonError(404, "there is nothing here");
}

// Each reader remembers which scene it was sent last, and how far it has read a log.
HttpAnswer Site::Events(const HttpRequest& request) {
  const std::optional<LogChoice> log =
      options_.log_news == nullptr ? std::nullopt : LogOf(request.query);
  HttpAnswer answer;
  answer.type = "text/event-stream; charset=utf-8";
  answer.events = [this, jobs = JobsOf(request.query), log, place = LogPlace(),
                   sent = std::shared_ptr<const ClusterScene>()]() mutable -> SharedText {
    const std::shared_ptr<const ClusterScene> scene = options_.scene();
    auto text = std::make_shared<std::string>();
    if (scene != sent) AppendScene(scene, jobs, text.get());
    sent = scene;
    if (log.has_value()) AppendLog(*scene, *log, &place, text.get());
    return text->empty() ? nullptr : text;
  };
  return answer;
}

void Site::AppendScene(const std::shared_ptr<const ClusterScene>& scene,
                       const std::vector<uint32_t>& jobs, std::string* text) {
  const absl::Time now = absl::Now();
  AppendEvent("cluster", *ClusterOf(scene, now), text);
  for (const uint32_t job : jobs) {
    const SharedText of_job = JobOf(scene, job, now);
    if (of_job != nullptr) AppendEvent("job", *of_job, text);
  }
}

void Site::AppendLog(const ClusterScene& scene, const LogChoice& choice, LogPlace* place,
                     std::string* text) const {
  const JobScene* const job = scene.Find(choice.job);
  if (job == nullptr) return;
  const LogJob known{.cluster = scene.nodes.cluster_id(),
                     .ranks = job->status.ranks(),
                     .has_ended = control::HasEnded(job->status.state())};
  LogNews news;
  if (!options_.log_news(choice, known, place, &news)) return;
  AppendEvent("log", LogDocument(choice, news), text);
}

// Documents of another scene are of no use.
void Site::RebuildFrom(const std::shared_ptr<const ClusterScene>& scene) {
  if (made_of_ == scene) return;
  made_of_ = scene;
  cluster_ = nullptr;
  jobs_.clear();
}

SharedText Site::ClusterOf(const std::shared_ptr<const ClusterScene>& scene, absl::Time now) {
  RebuildFrom(scene);
  if (cluster_ == nullptr) {
    cluster_ = std::make_shared<const std::string>(
        ClusterDocument(*scene, options_.log_news != nullptr, now));
  }
  return cluster_;
}

SharedText Site::JobOf(const std::shared_ptr<const ClusterScene>& scene, uint32_t job,
                       absl::Time now) {
  RebuildFrom(scene);
  const auto [made, is_new] = jobs_.try_emplace(job);
  if (is_new) {
    std::string text = JobDocument(*scene, job, now);
    if (text.empty()) {
      jobs_.erase(made);
      return nullptr;
    }
    made->second = std::make_shared<const std::string>(std::move(text));
  }
  return made->second;
}

}  // namespace strata::cli
