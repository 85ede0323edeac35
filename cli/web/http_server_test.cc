#include "cli/web/http_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

// A connection to 127.0.0.1:PORT that says whatever a test wants and hears what comes back.
class RawClient {
 public:
  // `receive_buffer`: of the socket, in bytes; 0: the default.
  explicit RawClient(int port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }

  bool connected() const { return connected_; }
  bool Send(absl::string_view bytes) {
    return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

  // Hears until `text` is among what was heard. False: the other side has closed, or time is over.
  bool Hear(const std::string& text, absl::Duration within = absl::Seconds(10)) {
    const absl::Time until = absl::Now() + within;
    while (heard_.find(text) == std::string::npos) {
      if (!HearMore(until)) return false;
    }
    return true;
  }
  // Returns whether the other side closes in time.
  bool HearEnd(absl::Duration within = absl::Seconds(10)) {
    const absl::Time until = absl::Now() + within;
    while (HearMore(until)) {
    }
    return is_closed_;
  }
  // Reads at most this many bytes and drops them; returns their number. 0: the other side has
  // closed.
  size_t Drop(size_t bytes) {
    std::string dropped(bytes, '\0');
    const ssize_t size = recv(fd_.get(), dropped.data(), bytes, 0);
    return size > 0 ? size : 0;
  }
  // Hears one whole answer with a Content-Length and takes it away; empty: none came.
  std::string TakeAnswer(bool has_body = true) {
    if (!Hear("\r\n\r\n")) return "";
    const size_t head = heard_.find("\r\n\r\n") + 4;
    const std::string kLength = "Content-Length: ";
    const size_t at = heard_.find(kLength);
    size_t body = 0;
    if (has_body && at < head) {
      const size_t from = at + kLength.size();
      if (!absl::SimpleAtoi(heard_.substr(from, heard_.find('\r', from) - from), &body)) return "";
    }
    const absl::Time until = absl::Now() + absl::Seconds(10);
    while (heard_.size() < head + body) {
      if (!HearMore(until)) return "";
    }
    const std::string answer = heard_.substr(0, head + body);
    heard_.erase(0, head + body);
    return answer;
  }
  std::string Ask(absl::string_view request) { return Send(request) ? TakeAnswer() : ""; }

  const std::string& heard() const { return heard_; }

 private:
  bool HearMore(absl::Time until) {
    pollfd ready = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    const int64_t left = absl::ToInt64Milliseconds(until - absl::Now());
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) <= 0) return false;
    char bytes[16 << 10];
    const ssize_t size = recv(fd_.get(), bytes, sizeof(bytes), 0);
    if (size <= 0) is_closed_ = true;
    if (size > 0) heard_.append(bytes, size);
    return size > 0;
  }

  const UniqueFd fd_;
  bool connected_ = false;
  bool is_closed_ = false;
  std::string heard_;
};

// A GET without a body.
inline std::string GetRequest(absl::string_view path, absl::string_view headers = "") {
  return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n");
}

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

TEST_F(HttpServerTest, ConnectionsBeyondTheLimitAreClosedWhereAllAreAnsweredAndLaterOnesTakenIn) {
  Begin({.connections_max = 2, .event_pause = absl::Milliseconds(50)});
  std::optional<RawClient> first(port());
  RawClient second(port());
  for (RawClient* stream : {&*first, &second}) {
    ASSERT_TRUE(stream->Send(GetRequest("/events")));
    ASSERT_TRUE(stream->Hear("\r\n\r\n"));
  }
  RawClient third(port());
  EXPECT_TRUE(third.HearEnd());
  EXPECT_EQ(third.heard(), "");
  EXPECT_FALSE(second.HearEnd(absl::Milliseconds(100)));
  first.reset();
  EXPECT_TRUE(HasRoom());
}

TEST_F(HttpServerTest, AConnectionBeyondTheLimitPutsOutTheOneThatHasWaitedLongest) {
  Begin({.connections_max = 3});
  RawClient idle(port()), stream(port()), half(port());
  ASSERT_NE(idle.Ask(GetRequest("/")), "");
  ASSERT_TRUE(stream.Send(GetRequest("/events")));
  ASSERT_TRUE(stream.Hear("\r\n\r\n"));
  ASSERT_NE(half.Ask(GetRequest("/")), "");
  ASSERT_TRUE(half.Send("GET / HTTP/1.1\r\n"));
  RawClient next(port());
  EXPECT_THAT(next.Ask(GetRequest("/")), EndsWith("GET /  "));
  EXPECT_TRUE(idle.HearEnd());
  EXPECT_FALSE(half.HearEnd(absl::Milliseconds(100)));
  RawClient last(port());
  EXPECT_THAT(last.Ask(GetRequest("/")), EndsWith("GET /  "));
  EXPECT_TRUE(half.HearEnd());
  EXPECT_FALSE(stream.HearEnd(absl::Milliseconds(100)));
  EXPECT_THAT(next.Ask(GetRequest("/")), EndsWith("GET /  "));
}

// More than there is room for, each with a byte now and then, or a body or headers without an end.
TEST_F(HttpServerTest, WhoHoldsAllConnectionsKeepsNobodyOut) {
  Begin({.connections_max = 8, .request_timeout = absl::Seconds(60)});
  std::vector<std::unique_ptr<RawClient>> attackers(12);
  const std::string kBegins[] = {
      "", "G", "GET / HTTP/1.1\r\nX-Slow: x",
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;"};
  for (int round = 0; round < 30; ++round) {
    for (size_t i = 0; i < attackers.size(); ++i) {
      std::unique_ptr<RawClient>& attacker = attackers[i];
      if (attacker != nullptr && attacker->Send("x")) continue;
      attacker = std::make_unique<RawClient>(port());
      attacker->Send(kBegins[(i + round) % std::size(kBegins)]);
    }
    RawClient reader(port());
    ASSERT_THAT(reader.Ask(GetRequest("/")), EndsWith("GET /  ")) << round;
  }
}

TEST_F(HttpServerTest, WhatHasNoEndIsRefused) {
  Begin();
  const std::string begin = "POST / HTTP/1.1\r\nHost: localhost\r\n";
  const std::string chunked = begin + "Transfer-Encoding: chunked\r\n\r\n";
  const std::string line = "X-Header: " + std::string(100, 'x') + "\r\n";
  const std::string chunk = "64\r\n" + std::string(100, 'x') + "\r\n";
  for (const auto& [head, more, status] :
       {std::tuple<std::string, std::string, std::string>{begin, line, "431"},
        {chunked, chunk, "413"},
        {chunked + "1;", "extension=" + std::string(100, 'x') + ";", "4"},
        {chunked + "0\r\n", line, "4"}}) {
    RawClient client(port());
    ASSERT_TRUE(client.Send(head));
    size_t sent = 0;
    while (sent < (1 << 20) && client.Send(more)) {
      sent += more.size();
      if (client.HearEnd(absl::ZeroDuration())) break;
    }
    EXPECT_LT(sent, 1u << 20);
    EXPECT_TRUE(client.HearEnd());
    EXPECT_TRUE(client.heard().empty() || absl::StartsWith(client.heard(), "HTTP/1.1 " + status))
        << client.heard();
  }
  EXPECT_THAT(RawClient(port()).Ask(GetRequest("/")), EndsWith("GET /  "));
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
  // The sockets' buffers' worth, and one more that waits.
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

bool IsLoopback(const std::string& host) {
  const auto address = ResolveListenAddress(host);
  EXPECT_EQ(address.status(), absl::OkStatus()) << host;
  return address.ok() && address->is_loopback;
}

TEST(ListenAddressTest, OnlyThisHostReachesAllOf127AndIPv6Loopback) {
  for (const char* host : {"127.0.0.1", "127.200.3.4", "127.1", "::1", "localhost"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
}

TEST(ListenAddressTest, OthersReachEveryOtherAddress) {
  for (const char* host : {"0.0.0.0", "::", "128.0.0.1", "10.0.0.127", "::7f00:1", "fe80::1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(ListenAddressTest, AllAddressesAreNoneToGoTo) {
  for (const char* host : {"0.0.0.0", "::"}) {
    EXPECT_TRUE(ResolveListenAddress(host)->is_any) << host;
  }
  for (const char* host : {"127.0.0.1", "10.1.2.3", "fe80::1"}) {
    EXPECT_FALSE(ResolveListenAddress(host)->is_any) << host;
  }
}

TEST(ListenAddressTest, AnAddressStaysAsItIs) {
  EXPECT_EQ(ResolveListenAddress("10.1.2.3")->text, "10.1.2.3");
  EXPECT_EQ(ResolveListenAddress("::1")->text, "::1");
}

TEST(ListenAddressTest, AHostWithoutAnAddressIsNamed) {
  const auto address = ResolveListenAddress("127.no-such-host.invalid");
  EXPECT_TRUE(absl::IsUnavailable(address.status()));
  EXPECT_THAT(std::string(address.status().message()),
              StartsWith("cannot listen at 127.no-such-host.invalid: "));
}

}  // namespace

}  // namespace strata::cli
