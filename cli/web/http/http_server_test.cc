#include "cli/web/http/http_server.h"

#include <atomic>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/web/http/raw_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

SharedText Share(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

// A server that answers with what it was asked: "METHOD PATH QUERY BODY".
class HttpServerTest : public ::testing::Test {
 protected:
  ~HttpServerTest() override { Stop(); }

  void Begin(HttpServer::Options options = {}) {
    auto server = HttpServer::Listen(
        std::move(options), [this](const HttpRequest& request) { return Answer(request); });
    ASSERT_EQ(server.status(), absl::OkStatus());
    server_ = *std::move(server);
    thread_ = std::thread([this] { server_->Run(); });
  }
  void Stop() {
    if (!thread_.joinable()) return;
    server_->Stop();
    thread_.join();
    server_ = nullptr;
  }

  HttpAnswer Answer(const HttpRequest& request) {
    if (request.path == "/events") {
      return {.type = "text/event-stream", .body = nullptr, .headers = {}, .events = events_};
    }
    if (request.path == "/same") return {.status = 304};
    if (request.path == "/long") return {.body = Share(std::string(16 << 20, 'x'))};
    return {.body = Share(absl::StrCat(request.method, " ", request.path, " ", request.query, " ",
                                       request.body)),
            .headers = {{"X-Of-Handler", "yes"}}};
  }

  int port() const { return server_->port(); }
  // Until the server answers on a new connection; false: it does not within 10 s.
  bool HasRoom() {
    for (const absl::Time until = absl::Now() + absl::Seconds(10); absl::Now() < until;) {
      RawClient client(port());
      if (!client.Ask(GetRequest("/")).empty()) return true;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  }

  EventSource events_ = [] { return nullptr; };
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(HttpServerTest, AnswersWithTheHandlersTextAndBothTheirHeaders) {
  Begin({.headers = {{"X-Of-All", "too"}}});
  const std::string answer = RawClient(port()).Ask(GetRequest("/a/b?c=1"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("X-Of-Handler: yes\r\n"));
  EXPECT_THAT(answer, HasSubstr("X-Of-All: too\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nGET /a/b c=1 "));
}

TEST_F(HttpServerTest, HandsTheBodyOfAPostOver) {
  Begin();
  EXPECT_THAT(RawClient(port()).Ask(
                  "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\ntoken"),
              EndsWith("POST /login  token"));
}

TEST_F(HttpServerTest, HeadIsAnsweredWithTheLengthAndWithoutTheBody) {
  Begin();
  RawClient client(port());
  ASSERT_TRUE(client.Send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_THAT(client.TakeAnswer(/*has_body=*/false), HasSubstr("Content-Length: 8\r\n"));
  // The next answer follows at once: there was no body.
  EXPECT_THAT(client.Ask(GetRequest("/next")), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpServerTest, AnswersRequestsThatComeTogetherInTheirOrder) {
  Begin();
  RawClient client(port());
  ASSERT_TRUE(client.Send(GetRequest("/one") + GetRequest("/two")));
  EXPECT_THAT(client.TakeAnswer(), EndsWith("GET /one  "));
  EXPECT_THAT(client.TakeAnswer(), EndsWith("GET /two  "));
}

TEST_F(HttpServerTest, ClosesTheLineWhereTheReaderWantsNoMore) {
  Begin();
  RawClient client(port());
  EXPECT_THAT(client.Ask(GetRequest("/", "Connection: close\r\n")), EndsWith("GET /  "));
  EXPECT_TRUE(client.HearEnd());
}

TEST_F(HttpServerTest, AHeaderThatIsTooLongIsRefused) {
  Begin({.header_bytes_max = 8 << 10});
  RawClient client(port());
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\nX-Long: " + std::string(20 << 10, 'x')));
  EXPECT_TRUE(client.HearEnd());
  EXPECT_THAT(client.heard(), StartsWith("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, ABodyThatIsTooLongIsRefusedBeforeItHasCome) {
  Begin({.body_bytes_max = 4 << 10});
  RawClient client(port());
  ASSERT_TRUE(client.Send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4097\r\n\r\n"));
  EXPECT_THAT(client.TakeAnswer(), StartsWith("HTTP/1.1 413 "));
  EXPECT_TRUE(client.HearEnd());
}

TEST_F(HttpServerTest, WhatIsNoHttpIsRefused) {
  Begin();
  RawClient client(port());
  EXPECT_THAT(client.Ask("\x16\x03\x01\x02 this is no request\r\n\r\n"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_TRUE(client.HearEnd());
}

TEST_F(HttpServerTest, WhoSendsARequestBitByBitIsCutOff) {
  Begin({.request_timeout = absl::Milliseconds(300)});
  const absl::Time began = absl::Now();
  RawClient client(port());
  const std::string request = GetRequest("/", "X-Slow: " + std::string(1000, 'x') + "\r\n");
  bool is_closed = false;
  for (size_t i = 0; i < request.size() && !is_closed; ++i) {
    is_closed = !client.Send(request.substr(i, 1)) || client.HearEnd(absl::Milliseconds(20));
  }
  EXPECT_TRUE(is_closed);
  EXPECT_GE(absl::Now() - began, absl::Milliseconds(250));
  EXPECT_EQ(client.heard(), "");
}

TEST_F(HttpServerTest, WhoAsksForNothingIsCutOff) {
  Begin({.request_timeout = absl::Seconds(1), .idle_timeout = absl::Seconds(1)});
  RawClient silent(port()), done(port());
  EXPECT_THAT(done.Ask(GetRequest("/")), EndsWith("GET /  "));
  EXPECT_TRUE(silent.HearEnd());
  EXPECT_TRUE(done.HearEnd());
}

TEST_F(HttpServerTest, ConnectionsBeyondTheLimitAreClosedAndLaterOnesTakenIn) {
  Begin({.connections_max = 2});
  std::optional<RawClient> first(port());
  RawClient second(port());
  ASSERT_NE(first->Ask(GetRequest("/")), "");
  ASSERT_NE(second.Ask(GetRequest("/")), "");
  RawClient third(port());
  EXPECT_TRUE(third.HearEnd());
  EXPECT_EQ(third.heard(), "");
  first.reset();
  EXPECT_TRUE(HasRoom());
}

TEST_F(HttpServerTest, StreamsBeyondTheLimitAreRefusedAndOtherRequestsAnswered) {
  Begin({.streams_max = 1});
  RawClient stream(port()), other(port());
  ASSERT_TRUE(stream.Send(GetRequest("/events")));
  ASSERT_TRUE(stream.Hear("\r\n\r\n"));
  EXPECT_THAT(other.Ask(GetRequest("/events")), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(other.Ask(GetRequest("/")), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, AStreamHearsWhatIsNewAndBetweenThatASignOfLife) {
  std::atomic<int> news = 1;
  events_ = [&news, told = 0]() mutable -> SharedText {
    return told < news ? Share(absl::StrCat("data: ", ++told, "\n\n")) : nullptr;
  };
  Begin({.event_pause = absl::Milliseconds(50)});
  RawClient client(port());
  ASSERT_TRUE(client.Send(GetRequest("/events")));
  EXPECT_TRUE(client.Hear("data: 1\n\n"));
  EXPECT_TRUE(client.Hear(": still here\n\n"));
  ++news;
  server_->Notify();
  EXPECT_TRUE(client.Hear("data: 2\n\n"));
  EXPECT_THAT(client.heard(), HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(client.heard(), Not(HasSubstr("Content-Length")));
}

TEST_F(HttpServerTest, AReaderThatDoesNotReadIsAskedNoFurtherHoldsUpNobodyAndIsCutOff) {
  constexpr int kNews = 200;
  std::atomic<int> asked = 0;
  const SharedText text = Share(std::string(1 << 20, 'x'));
  events_ = [&] {
    ++asked;
    return text;
  };
  Begin({.streams_max = 1, .write_timeout = absl::Seconds(1)});
  RawClient deaf(port(), /*receive_buffer=*/4096), other(port());
  ASSERT_TRUE(deaf.Send(GetRequest("/events")));
  for (int i = 0; i < kNews; ++i) {
    server_->Notify();
    ASSERT_THAT(other.Ask(GetRequest("/")), EndsWith("GET /  "));
  }
  // What the sockets' buffers hold, and one more that waits to be taken.
  EXPECT_LE(asked, 16);
  // Its place is free once it was given up.
  for (const absl::Time until = absl::Now() + absl::Seconds(10); absl::Now() < until;) {
    RawClient next(port());
    ASSERT_TRUE(next.Send(GetRequest("/events")));
    ASSERT_TRUE(next.Hear("\r\n"));
    if (absl::StartsWith(next.heard(), "HTTP/1.1 200 ")) return;
    absl::SleepFor(absl::Milliseconds(50));
  }
  FAIL() << "the reader that does not read still has its place";
}

TEST_F(HttpServerTest, AStreamWhoseEventsCannotBeMadeEndsAndLeavesItsPlace) {
  events_ = []() -> SharedText { throw std::bad_alloc(); };
  Begin({.streams_max = 1});
  for (int i = 0; i < 3; ++i) {
    RawClient stream(port());
    ASSERT_TRUE(stream.Send(GetRequest("/events")));
    EXPECT_TRUE(stream.HearEnd());
    EXPECT_THAT(stream.heard(), StartsWith("HTTP/1.1 200 "));
    server_->Notify();  // tells those that are left
  }
}

TEST_F(HttpServerTest, AReaderThatTakesALittleNowAndThenIsCutOff) {
  Begin({.write_timeout = absl::Milliseconds(500), .write_bytes_per_s_min = 1 << 30});
  RawClient slow(port(), /*receive_buffer=*/64 << 10);
  ASSERT_TRUE(slow.Send(GetRequest("/long")));
  for (const absl::Time until = absl::Now() + absl::Seconds(2); absl::Now() < until;) {
    ASSERT_GT(slow.Drop(4096), 0u);
    absl::SleepFor(absl::Milliseconds(50));
  }
  // It has closed: what is left is what the sockets' buffers held.
  size_t left = 0;
  while (const size_t size = slow.Drop(64 << 10)) left += size;
  EXPECT_LT(left, 12u << 20);
}

TEST_F(HttpServerTest, WhatHasNotChangedIsAnsweredWithoutALength) {
  Begin();
  RawClient client(port());
  const std::string answer = client.Ask(GetRequest("/same"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 304 "));
  EXPECT_THAT(answer, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(client.Ask(GetRequest("/")), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, StopsWhileReadersAreThere) {
  Begin();
  RawClient stream(port()), idle(port());
  ASSERT_TRUE(stream.Send(GetRequest("/events")));
  ASSERT_TRUE(stream.Hear("\r\n\r\n"));
  Stop();
  EXPECT_TRUE(stream.HearEnd());
  EXPECT_TRUE(idle.HearEnd());
}

TEST_F(HttpServerTest, APortThatIsInUseIsNamed) {
  Begin();
  const auto other = HttpServer::Listen({.port = port()}, nullptr);
  EXPECT_TRUE(absl::IsUnavailable(other.status()));
  EXPECT_EQ(other.status().message(),
            absl::StrCat("cannot listen at 127.0.0.1:", port(), ": Address already in use"));
}

TEST_F(HttpServerTest, ACertificateThatIsNoneIsNamed) {
  const auto server =
      HttpServer::Listen({.certificate_file = "/dev/null", .key_file = "/dev/null"}, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(server.status()));
  EXPECT_THAT(std::string(server.status().message()),
              StartsWith("/dev/null: no certificate in PEM form: "));
}

}  // namespace
}  // namespace strata::cli
