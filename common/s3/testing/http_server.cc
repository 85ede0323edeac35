#include "common/s3/testing/http_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/require.h"

namespace strata::s3 {
namespace {

std::string Decode(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t code = 0;
    if (text[i] == '%' && absl::SimpleHexAtoi(text.substr(i + 1, 2), &code)) {
      decoded.push_back(static_cast<char>(code));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

// Reads more into the buffer. False: there is no more.
bool ReadMore(int fd, std::string* buffer) {
  char block[65536];
  const ssize_t got = recv(fd, block, sizeof block, 0);
  if (got > 0) buffer->append(block, static_cast<size_t>(got));
  return got > 0;
}

bool SendAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

// Makes the end of a connection a reset.
void ResetAtClose(int fd) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

void ParseTarget(ReceivedRequest* request) {
  const size_t mark = request->target.find('?');
  request->path = Decode(absl::string_view(request->target).substr(0, mark));
  if (mark == std::string::npos) return;
  for (absl::string_view pair : absl::StrSplit(request->target.substr(mark + 1), '&')) {
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string name = Decode(pair.substr(0, equals));
    request->query_names.push_back(name);
    request->query[name] = equals < pair.size() ? Decode(pair.substr(equals + 1)) : "";
  }
}

}  // namespace

HttpServer::HttpServer(Handler handler)
    : handler_(std::move(handler)), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  STRATA_REQUIRE(bind(listener_.get(), plain, size) == 0);
  STRATA_REQUIRE(listen(listener_.get(), 64) == 0);
  STRATA_REQUIRE(getsockname(listener_.get(), plain, &size) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

HttpServer::~HttpServer() {
  shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void HttpServer::StallBodiesOf(const std::string& method) {
  absl::MutexLock lock(&mutex_);
  stalled_method_ = method;
}

void HttpServer::ReadSlowly(absl::Duration pause) {
  absl::MutexLock lock(&mutex_);
  pause_ = pause;
}

std::string HttpServer::Url() const { return absl::StrCat("http://127.0.0.1:", port_); }

int HttpServer::requests() const {
  absl::MutexLock lock(&mutex_);
  return requests_;
}

int HttpServer::connections() const {
  absl::MutexLock lock(&mutex_);
  return connections_;
}

void HttpServer::Accept() {
  while (true) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) return;
    absl::MutexLock lock(&mutex_);
    ++connections_;
    open_.push_back(fd.get());
    threads_.emplace_back([this, own = std::make_shared<UniqueFd>(std::move(fd))] {
      Serve(own->get());
      absl::MutexLock closing(&mutex_);
      open_.remove(own->get());
      own->Reset();
    });
  }
}

void HttpServer::Serve(int fd) {
  std::string buffer;
  while (true) {
    ReceivedRequest request;
    if (!ReadRequest(fd, &buffer, &request)) return;
    if (!Answer(fd, handler_(request))) return;
  }
}

bool HttpServer::ReadRequest(int fd, std::string* buffer, ReceivedRequest* request) {
  size_t end = 0;
  while ((end = buffer->find("\r\n\r\n")) == std::string::npos) {
    constexpr char kBeginOfTls = 0x16;
    if (!ReadMore(fd, buffer) || (*buffer)[0] == kBeginOfTls) return false;
  }
  std::vector<std::string> lines = absl::StrSplit(buffer->substr(0, end), "\r\n");
  buffer->erase(0, end + 4);
  const std::vector<std::string> first = absl::StrSplit(lines[0], ' ');
  STRATA_REQUIRE(first.size() == 3);
  request->method = first[0];
  request->target = first[1];
  ParseTarget(request);
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<std::string, std::string> header =
        absl::StrSplit(lines[i], absl::MaxSplits(':', 1));
    request->headers[absl::AsciiStrToLower(header.first)] =
        std::string(absl::StripAsciiWhitespace(header.second));
  }
  bool stalls = false;
  absl::Duration pause;
  {
    absl::MutexLock lock(&mutex_);
    ++requests_;
    stalls = stalled_method_ == request->method;
    pause = pause_;
  }
  if (stalls) {
    WaitForTheEnd(fd);
    return false;
  }
  if (request->Header("expect") == "100-continue") SendAll(fd, "HTTP/1.1 100 Continue\r\n\r\n");
  size_t length = 0;
  (void)absl::SimpleAtoi(request->Header("content-length"), &length);
  while (buffer->size() < length) {
    absl::SleepFor(pause);
    if (!ReadMore(fd, buffer)) return false;
  }
  request->body = buffer->substr(0, length);
  buffer->erase(0, length);
  return true;
}

bool HttpServer::Answer(int fd, const CannedReply& reply) {
  if (reply.fault == Fault::kReset) {
    ResetAtClose(fd);
    return false;
  }
  if (reply.fault == Fault::kStall) {
    WaitForTheEnd(fd);
    return false;
  }
  const bool is_chunked = reply.fault == Fault::kChunked;
  std::string head = absl::StrCat("HTTP/1.1 ", reply.status, " status\r\n");
  for (const std::string& header : reply.headers) absl::StrAppend(&head, header, "\r\n");
  if (is_chunked) {
    absl::StrAppend(&head, "Transfer-Encoding: chunked\r\n\r\n");
    return SendAll(
        fd, absl::StrCat(head, absl::Hex(reply.body.size()), "\r\n", reply.body, "\r\n0\r\n\r\n"));
  }
  if (reply.status != 204) absl::StrAppend(&head, "Content-Length: ", reply.body.size(), "\r\n");
  absl::StrAppend(&head, "\r\n");
  if (reply.fault == Fault::kNone) return SendAll(fd, head + reply.body);
  SendAll(fd, head + reply.body.substr(0, reply.body.size() / 2));
  if (reply.fault == Fault::kStallInBody) WaitForTheEnd(fd);
  if (reply.fault == Fault::kResetInBody) {
    // What was sent has arrived before the reset.
    pollfd readable = {fd, POLLIN, 0};
    poll(&readable, 1, 50);
    ResetAtClose(fd);
  }
  return false;
}

void HttpServer::WaitForTheEnd(int fd) {
  pollfd gone = {fd, POLLRDHUP, 0};
  poll(&gone, 1, -1);
}

}  // namespace strata::s3
