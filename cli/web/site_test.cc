#include "cli/web/site.h"

#include <openssl/sha.h>
#include <zlib.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/render/top_screen.h"
#include "cli/web/login.h"
#include "cli/web/page.h"
#include "cli/web/page_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

const absl::Time kSiteNow = absl::FromUnixSeconds(1'000'000);
constexpr char kSiteHtml[] = "<style>{{style}}</style><script>{{page_js}}</script>{{palette}}";

std::string Header(const HttpAnswer& answer, const std::string& name) {
  std::string value;
  for (const auto& [one, text] : answer.headers) {
    if (one == name) value = text;
  }
  return value;
}

// A site of a cluster with one daemon, "w one", and the job 3.
class SiteTest : public ::testing::Test {
 protected:
  SiteTest() { SetScene("c"); }

  void SetScene(const std::string& cluster) {
    auto scene = std::make_shared<ClusterScene>();
    scene->nodes.set_cluster_id(cluster);
    scene->nodes.add_daemons()->set_name("w one");
    auto job = std::make_shared<JobScene>();
    job->status.set_job_id(3);
    scene->jobs.push_back(std::move(job));
    scene_ = std::move(scene);
  }
  Site& Make(Site::Options options = {}) {
    options.scene = [this] { return scene_; };
    options.metrics = [](const ClusterScene& scene, absl::Time) {
      return absl::StrCat("metrics of ", scene.nodes.cluster_id());
    };
    options.on_new_token = [this](const std::string& token) { new_tokens_.push_back(token); };
    site_ =
        std::make_unique<Site>(std::move(options), MakePage(kSiteHtml, "a{}", "b()", "c()", "{}"));
    return *site_;
  }
  HttpAnswer Ask(const std::string& path, HttpRequest request = {}) {
    request.path = path;
    if (request.method.empty()) request.method = "GET";
    if (request.host.empty()) request.host = "127.0.0.1:8265";
    return site_->Answer(request, kSiteNow);
  }
  HttpAnswer LogIn(const std::string& token, const std::string& origin = "") {
    return Ask("/login", {.method = "POST", .origin = origin, .body = token});
  }
  // "strata_web=SECRET"
  std::string Session() {
    const std::string cookie = Header(LogIn(site_->token()), "Set-Cookie");
    return cookie.substr(0, cookie.find(';'));
  }

  std::shared_ptr<const ClusterScene> scene_;
  std::vector<std::string> new_tokens_;
  std::unique_ptr<Site> site_;
};

TEST_F(SiteTest, DataWantASessionAndThePageItselfDoesNot) {
  Make();
  for (const char* path : {"/api/cluster", "/api/jobs/3", "/api/daemons/w%20one", "/api/events"}) {
    const HttpAnswer answer = Ask(path);
    EXPECT_EQ(answer.status, 401) << path;
    EXPECT_THAT(*answer.body, HasSubstr("open the link that strata web prints"));
    EXPECT_EQ(answer.events, nullptr);
  }
  EXPECT_EQ(Ask("/metrics").status, 401);
  for (const char* path : {"/", "/chart.js", "/healthz"}) EXPECT_EQ(Ask(path).status, 200) << path;
  const std::string session = Session();
  for (const char* path :
       {"/api/cluster", "/api/jobs/3", "/api/daemons/w%20one", "/api/events", "/metrics"}) {
    EXPECT_EQ(Ask(path, {.cookie = session}).status, 200) << path;
  }
}

TEST_F(SiteTest, ABadCookieIsNoSession) {
  Make();
  const std::string session = Session();
  std::string other = session;
  other.back() = other.back() == 'A' ? 'B' : 'A';
  for (const std::string& cookie : {other, std::string("strata_web="), std::string("strata_web"),
                                    absl::StrCat("another_", session)}) {
    EXPECT_EQ(Ask("/api/cluster", {.cookie = cookie}).status, 401) << cookie;
  }
  EXPECT_EQ(Ask("/api/cluster", {.cookie = absl::StrCat("a=1; ", session)}).status, 200);
}

TEST_F(SiteTest, ALinkIsGoodOnceAndTheNextOneIsTold) {
  Make();
  const std::string token = site_->token();
  const HttpAnswer first = LogIn(token);
  EXPECT_EQ(first.status, 200);
  EXPECT_THAT(Header(first, "Set-Cookie"), HasSubstr("; HttpOnly; SameSite=Strict; Path=/"));
  EXPECT_THAT(Header(first, "Set-Cookie"), Not(HasSubstr("Secure")));
  EXPECT_EQ(new_tokens_, std::vector<std::string>{site_->token()});
  const HttpAnswer second = LogIn(token);
  EXPECT_EQ(second.status, 401);
  EXPECT_EQ(Header(second, "Set-Cookie"), "");
  EXPECT_EQ(new_tokens_.size(), 1u);
}

TEST_F(SiteTest, OverTlsTheCookieStaysOnTls) {
  Make({.has_tls = true});
  EXPECT_EQ(LogIn(site_->token(), "http://127.0.0.1:8265").status, 403);
  const HttpAnswer answer = LogIn(site_->token(), "https://127.0.0.1:8265");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(Header(answer, "Set-Cookie"), HasSubstr("; Secure"));
}

TEST_F(SiteTest, ALinkThatAnotherPageOpensIsRefusedAndStaysGood) {
  Make();
  const std::string token = site_->token();
  for (const char* origin :
       {"http://evil.example", "null", "http://127.0.0.1:80", "https://127.0.0.1:8265"}) {
    EXPECT_EQ(LogIn(token, origin).status, 403) << origin;
  }
  EXPECT_EQ(LogIn(token, "http://127.0.0.1:8265").status, 200);
}

TEST_F(SiteTest, NamesOfOthersAreRefusedWhateverIsAsked) {
  Make({.needs_login = false, .hosts = {"head"}});
  for (const char* host : {"evil.example", "evil.example:8265", "127.0.0.1.evil.example", "1.2.3",
                           "[::1].evil.example", "localhost.evil.example", "header"}) {
    for (const char* path : {"/", "/api/cluster", "/metrics", "/healthz"}) {
      EXPECT_EQ(Ask(path, {.host = host}).status, 421) << host << path;
    }
  }
  for (const char* host :
       {"127.0.0.1:8265", "[::1]:8265", "localhost", "LOCALHOST:1", "head:8265", "10.0.0.1"}) {
    EXPECT_EQ(Ask("/api/cluster", {.host = host}).status, 200) << host;
  }
  EXPECT_FALSE(IsHostAllowed("", {}));
}

TEST_F(SiteTest, NothingButLookingIsTaken) {
  Make({.needs_login = false});
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"}) {
    const HttpAnswer answer = Ask("/api/cluster", {.method = method});
    EXPECT_EQ(answer.status, 405) << method;
    EXPECT_EQ(Header(answer, "Allow"), "GET, HEAD");
  }
  EXPECT_EQ(Ask("/login").status, 404);
  EXPECT_EQ(Ask("/api/cluster", {.method = "HEAD"}).status, 200);
}

TEST_F(SiteTest, EveryAnswerHasTheHeadersThatKeepThePageToItself) {
  const auto headers = Make().Headers();
  EXPECT_THAT(headers, Contains(Pair("X-Content-Type-Options", "nosniff")));
  EXPECT_THAT(headers, Contains(Pair("Referrer-Policy", "no-referrer")));
  EXPECT_THAT(headers, Contains(Pair("Cross-Origin-Resource-Policy", "same-origin")));
  EXPECT_THAT(headers, Contains(Pair("Cache-Control", "no-store")));
  EXPECT_THAT(headers,
              Contains(Pair("Content-Security-Policy", StartsWith("default-src 'none';"))));
  for (const auto& [name, value] : headers) EXPECT_THAT(name, Not(StartsWith("Access-Control")));
}

TEST_F(SiteTest, MetricsTakeTheirOwnTokenWhichOpensNothingElse) {
  Make({.metrics_token = "0123456789abcdef"});
  const std::string good = "Bearer 0123456789abcdef";
  const HttpAnswer answer = Ask("/metrics", {.authorization = good});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(*answer.body, "metrics of c");
  EXPECT_EQ(answer.type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_EQ(Ask("/api/cluster", {.authorization = good}).status, 401);
  for (const char* wrong :
       {"", "Bearer ", "Bearer 0123456789abcdeg", "0123456789abcdef", "Basic 0123456789abcdef"}) {
    EXPECT_EQ(Ask("/metrics", {.authorization = wrong}).status, 401) << wrong;
  }
}

TEST_F(SiteTest, WithoutAMetricsTokenAnEmptyOneOpensNothing) {
  Make();
  EXPECT_EQ(Ask("/metrics", {.authorization = "Bearer "}).status, 401);
}

TEST_F(SiteTest, TheChartsLibraryIsSentOnceAndPackedWhereThatIsTaken) {
  Make();
  const HttpAnswer plain = Ask("/chart.js");
  EXPECT_EQ(*plain.body, "c()");
  EXPECT_EQ(Header(plain, "Content-Encoding"), "");
  EXPECT_EQ(Header(plain, "Vary"), "Accept-Encoding");
  const std::string tag = Header(plain, "ETag");
  ASSERT_THAT(tag, Not(IsEmpty()));
  EXPECT_EQ(Ask("/chart.js", {.if_none_match = tag}).status, 304);
  EXPECT_EQ(Ask("/chart.js", {.if_none_match = "\"other\""}).status, 200);
  EXPECT_EQ(Header(Ask("/chart.js", {.accepts_gzip = true}), "Content-Encoding"), "gzip");
  EXPECT_EQ(Header(Ask("/", {.accepts_gzip = true}), "Content-Encoding"), "gzip");
  EXPECT_EQ(*Ask("/").body, "<style>a{}</style><script>b()</script>{}");
}

TEST_F(SiteTest, WhatIsNotThereIsNamed) {
  Make({.needs_login = false});
  EXPECT_EQ(*Ask("/api/jobs/7").body, "{\"error\":\"there is no job 7\"}");
  EXPECT_EQ(*Ask("/api/daemons/w%209").body, "{\"error\":\"there is no daemon w 9\"}");
  for (const char* path : {"/api/jobs/7", "/api/jobs/", "/api/jobs/-3", "/api/jobs/3x",
                           "/api/jobs/99999999999999999999", "/api/daemons/", "/api/", "/x",
                           "/api/daemons/%", "/api/daemons/%zz", "/../etc/passwd"}) {
    EXPECT_EQ(Ask(path).status, 404) << path;
  }
}

TEST_F(SiteTest, AnEventHasTheNewestSceneAndTheJobsThatWereAskedFor) {
  Make({.needs_login = false});
  const HttpAnswer answer = Ask("/api/events", {.query = "job=3&job=7&x=1"});
  ASSERT_NE(answer.events, nullptr);
  const SharedText first = answer.events();
  ASSERT_NE(first, nullptr);
  EXPECT_THAT(*first, StartsWith("event: cluster\ndata: {"));
  EXPECT_THAT(*first, HasSubstr("\n\nevent: job\ndata: {"));
  EXPECT_EQ(first->find("event: job"), first->rfind("event: job")) << "there is no job 7";
  EXPECT_EQ(answer.events(), nullptr) << "nothing is new";
  SetScene("next");
  SetScene("newest");
  const SharedText second = answer.events();
  ASSERT_NE(second, nullptr);
  EXPECT_THAT(*second, HasSubstr("\"cluster_id\":\"newest\""));
  EXPECT_EQ(answer.events(), nullptr) << "what was there between is not told any more";
}

TEST_F(SiteTest, ReadersOfOneSceneShareItsTextAndANewSceneHasANewOne) {
  Make({.needs_login = false});
  const SharedText first = Ask("/api/cluster").body;
  EXPECT_EQ(Ask("/api/cluster").body, first);
  SetScene("next");
  EXPECT_THAT(*Ask("/api/cluster").body, HasSubstr("\"cluster_id\":\"next\""));
}

// Returns the new text of a reader's stream; empty: there is none.
std::string Now(const HttpAnswer& answer) {
  const SharedText text = answer.events();
  return text == nullptr ? "" : *text;
}

TEST_F(SiteTest, AStreamHasTheLogThatIsAskedForAsItGrows) {
  std::vector<std::string> lines = {"one"};
  std::vector<LogChoice> asked;
  Make(
      {.needs_login = false,
       .log_news = [&](const LogChoice& choice, const LogJob& job, LogPlace* place, LogNews* news) {
         asked.push_back(choice);
         EXPECT_EQ(job.ranks, 5u);
         EXPECT_EQ(job.cluster, "c");
         EXPECT_TRUE(job.has_ended);
         for (; place->line < lines.size(); ++place->line) {
           news->lines.push_back({"1", lines[place->line]});
         }
         return !news->lines.empty();
       }});
  auto scene = std::make_shared<ClusterScene>(*scene_);
  auto job = std::make_shared<JobScene>();
  job->status.set_job_id(3);
  job->status.set_ranks(5);
  job->status.set_state(proto::FINISHED);
  scene->jobs = {job};
  scene_ = scene;
  EXPECT_THAT(*Ask("/api/cluster").body, HasSubstr("\"has_logs\":true"));
  const HttpAnswer with_log = Ask("/api/events", {.query = "job=3&log=3%3Arank%3A1"});
  const std::string first = Now(with_log);
  EXPECT_THAT(first, StartsWith("event: cluster\n"));
  EXPECT_THAT(first, HasSubstr("event: log\ndata: {\"choice\":\"3:rank:1\""));
  EXPECT_THAT(first, HasSubstr("[[\"1\",\"one\"]]"));
  EXPECT_EQ(Now(with_log), "");
  lines.push_back("two");
  EXPECT_THAT(Now(with_log), StartsWith("event: log\n"));
  EXPECT_THAT(asked, Contains(LogChoice{.job = 3, .rank = 1}));

  const size_t before = asked.size();
  for (const char* query : {"job=3", "log=x", "log=77"}) {
    EXPECT_THAT(Now(Ask("/api/events", {.query = query})), Not(HasSubstr("event: log"))) << query;
  }
  EXPECT_EQ(asked.size(), before);
}

TEST_F(SiteTest, WithoutLogsNobodyHasThem) {
  Make({.needs_login = false});
  EXPECT_THAT(*Ask("/api/cluster").body, HasSubstr("\"has_logs\":false"));
  EXPECT_THAT(Now(Ask("/api/events", {.query = "log=3"})), Not(HasSubstr("event: log")));
}

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

TEST(Login, ATokenOpensOneSessionAndTheNextTokenAnother) {
  Login login;
  const std::string token = login.token();
  EXPECT_EQ(token.size(), 43u) << "256 bits in base64";
  const std::string first = login.Open(token, kNow);
  EXPECT_TRUE(login.IsOpen(first, kNow));
  EXPECT_EQ(login.Open(token, kNow), "");
  EXPECT_NE(login.token(), token);
  const std::string second = login.Open(login.token(), kNow);
  EXPECT_NE(second, first);
  EXPECT_TRUE(login.IsOpen(first, kNow));
  EXPECT_TRUE(login.IsOpen(second, kNow));
}

TEST(Login, AnotherTokenOpensNothingAndChangesNothing) {
  Login login;
  const std::string token = login.token();
  std::string other = token;
  other[0] = other[0] == 'A' ? 'B' : 'A';
  for (const std::string& wrong : {std::string(), other, token + "A", token.substr(1)}) {
    EXPECT_EQ(login.Open(wrong, kNow), "");
  }
  EXPECT_EQ(login.token(), token);
  EXPECT_FALSE(login.IsOpen("", kNow));
  EXPECT_FALSE(login.IsOpen(token, kNow));
}

TEST(Login, ASessionLastsTwelveHours) {
  Login login;
  const std::string session = login.Open(login.token(), kNow);
  EXPECT_TRUE(login.IsOpen(session, kNow + absl::Hours(12) - absl::Seconds(1)));
  EXPECT_FALSE(login.IsOpen(session, kNow + absl::Hours(12)));
}

TEST(Login, OneSessionMoreThanThereMayBeEndsTheOldest) {
  Login login;
  std::vector<std::string> sessions;
  for (size_t i = 0; i <= Login::kSessionsMax; ++i) {
    sessions.push_back(login.Open(login.token(), kNow));
  }
  EXPECT_FALSE(login.IsOpen(sessions[0], kNow));
  for (size_t i = 1; i < sessions.size(); ++i) EXPECT_TRUE(login.IsOpen(sessions[i], kNow));
}

TEST(Login, TwoLoginsHaveNothingInCommon) {
  Login one, other;
  EXPECT_NE(one.token(), other.token());
  EXPECT_FALSE(other.IsOpen(one.Open(one.token(), kNow), kNow));
}

TEST(SameSecret, HoldsForEqualTextsOfEqualLengthAlone) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
  EXPECT_FALSE(SameSecret("", "a"));
}

TEST(CookieValue, IsFoundAmongOthersByItsWholeName) {
  EXPECT_EQ(CookieValue("a=1; web=2; b=3", "web"), "2");
  EXPECT_EQ(CookieValue("web=x=y", "web"), "x=y");
  EXPECT_EQ(CookieValue("webb=1; we=2", "web"), "");
  EXPECT_EQ(CookieValue("web", "web"), "");
  EXPECT_EQ(CookieValue("", "web"), "");
}

constexpr char kHtml[] =
    "<style>{{style}}</style><p>{{palette}}</p><script src=\"/chart.js\"></script>"
    "<script>{{page_js}}</script>";

// As a browser makes it of what is inside of an element.
std::string HashSource(const std::string& text) {
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash);
  return absl::StrCat(
      "'sha256-",
      absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(hash), sizeof(hash))),
      "'");
}

// Returns the text between the last pair of them.
std::string Inside(const std::string& html, const std::string& begin, const std::string& end) {
  const size_t to = html.rfind(end);
  const size_t from = html.rfind(begin, to) + begin.size();
  return html.substr(from, to - from);
}

std::string Gunzip(const std::string& packed) {
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string text(4 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = packed.size();
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = text.size();
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

void ExpectPolicyOfWhatIsServed(const Page& page) {
  EXPECT_THAT(page.policy,
              HasSubstr(absl::StrCat("style-src ",
                                     HashSource(Inside(*page.html, "<style>", "</style>")), ";")));
  EXPECT_THAT(page.policy, HasSubstr(absl::StrCat(
                               "script-src 'self' ",
                               HashSource(Inside(*page.html, "<script>", "</script>")), ";")));
}

TEST(PagePolicy, NamesTheStyleAndTheScriptThatAreServedByTheirHashes) {
  const Page page = MakePage(kHtml, "p { color: red }\n", "let a = '<b>';\n", "chart", "{}");
  EXPECT_EQ(*page.html,
            "<style>p { color: red }\n</style><p>{}</p><script src=\"/chart.js\"></script>"
            "<script>let a = '<b>';\n</script>");
  ExpectPolicyOfWhatIsServed(page);
}

TEST(PagePolicy, WhatIsPutInIsNotSearchedForPlaces) {
  const Page page = MakePage(kHtml, "a{}", "let a = '{{style}} {{palette}}';", "chart", "{}");
  EXPECT_THAT(*page.html, HasSubstr("let a = '{{style}} {{palette}}';"));
  ExpectPolicyOfWhatIsServed(page);
}

TEST(PagePolicy, AllowsNothingElse) {
  const std::string policy = MakePage(kHtml, "a{}", "b()", "chart", "{}").policy;
  for (const char* part : {"default-src 'none';", "connect-src 'self';", "base-uri 'none';",
                           "form-action 'none';", "frame-ancestors 'none'"}) {
    EXPECT_THAT(policy, HasSubstr(part));
  }
  for (const char* part : {"unsafe", "http:", "https:", "data:", "*"}) {
    EXPECT_THAT(policy, Not(HasSubstr(part)));
  }
}

TEST(PagePolicy, HoldsForThePageOfThisBinaryWhichHasAllItNeedsAndIsSmall) {
  const Page page = OwnPage();
  ExpectPolicyOfWhatIsServed(page);
  for (const char* place : {"{{style}}", "{{page_js}}", "{{palette}}"}) {
    EXPECT_THAT(*page.html, Not(HasSubstr(place)));
  }
  EXPECT_LE(page.html->size() + page.chart_js->size(), 300u << 10);
}

TEST(PagePolicy, ThePackedFormsHoldTheSame) {
  const Page page = OwnPage();
  EXPECT_EQ(Gunzip(*page.html_gzip), *page.html);
  EXPECT_EQ(Gunzip(*page.chart_js_gzip), *page.chart_js);
}

TEST(PageWords, AWaitIsStuckFromTheSameSecondOnAsStrataTopSays) {
  // Not by a matcher, which would print all of the script.
  EXPECT_TRUE(absl::StrContains(kWebJs, absl::StrCat("\nconst STUCK_S = ", kStuckSeconds, ";")));
}

}  // namespace

}  // namespace strata::cli
