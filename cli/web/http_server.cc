#include "cli/web/http_server.h"

#include <openssl/err.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <exception>
#include <list>
#include <set>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "common/os/atomic_file.h"

namespace strata::cli {

namespace {

namespace asio = boost::asio;
namespace ssl = asio::ssl;

constexpr size_t kFileBytesMax = 1 << 20;

absl::StatusOr<std::string> ReadPem(const std::string& file) {
  absl::StatusOr<std::string> text = ReadFileOrPipe(file, kFileBytesMax);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  return text;
}

// Lets a server speak TLS 1.2 and later with the certificate and the key of two files in PEM form.
// It asks nobody for a pass phrase. Errors, each in one line that names the file: InvalidArgument.
absl::Status LoadTlsFiles(const std::string& certificate_file, const std::string& key_file,
                          ssl::context* context) {
  const absl::StatusOr<std::string> certificate = ReadPem(certificate_file);
  if (!certificate.ok()) return certificate.status();
  const absl::StatusOr<std::string> key = ReadPem(key_file);
  if (!key.ok()) return key.status();
  boost::system::error_code failed;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                       ssl::context::no_sslv3 | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
  bool has_pass_phrase = false;
  context->set_password_callback(
      [&has_pass_phrase](size_t, ssl::context::password_purpose) -> std::string {
        has_pass_phrase = true;
        return "";
      },
      failed);
  // The context keeps no reference to what is on this stack.
  const absl::Cleanup forget = [&] {
    boost::system::error_code ignored;
    context->set_password_callback(
        [](size_t, ssl::context::password_purpose) { return std::string(); }, ignored);
  };
  context->use_certificate_chain(boost::asio::buffer(*certificate), failed);
  if (failed) {
    return absl::InvalidArgumentError(
        absl::StrCat(certificate_file, ": no certificate in PEM form: ", failed.message()));
  }
  context->use_private_key(boost::asio::buffer(*key), ssl::context::pem, failed);
  if (!failed) return absl::OkStatus();
  if (has_pass_phrase) {
    return absl::InvalidArgumentError(
        absl::StrCat(key_file, ": has a pass phrase: only a key without one is taken"));
  }
  if (ERR_GET_LIB(static_cast<unsigned long>(failed.value())) == ERR_LIB_X509) {
    return absl::InvalidArgumentError(
        absl::StrCat(key_file, ": not the key of ", certificate_file, ": ", failed.message()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key_file, ": no private key in PEM form: ", failed.message()));
}

namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

using Response = http::response<http::string_body>;

std::chrono::milliseconds ToChrono(absl::Duration duration) {
  return std::chrono::milliseconds(absl::ToInt64Milliseconds(duration));
}

std::string Field(const http::request<http::string_body>& request, http::field name) {
  const auto value = request[name];
  return std::string(value.data(), value.size());
}

HttpRequest ToRequest(const http::request<http::string_body>& from) {
  HttpRequest request;
  const auto method = from.method_string();
  request.method = std::string(method.data(), method.size());
  const std::string target(from.target().data(), from.target().size());
  const size_t mark = std::min(target.find('?'), target.size());
  request.path = target.substr(0, mark);
  request.query = mark < target.size() ? target.substr(mark + 1) : "";
  request.host = Field(from, http::field::host);
  request.origin = Field(from, http::field::origin);
  request.cookie = Field(from, http::field::cookie);
  request.authorization = Field(from, http::field::authorization);
  request.if_none_match = Field(from, http::field::if_none_match);
  request.accepts_gzip = absl::StrContains(Field(from, http::field::accept_encoding), "gzip");
  request.body = from.body();
  return request;
}

absl::Status CannotListen(const HttpServer::Options& options, const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen at ", options.host, ":", options.port, ": ", why));
}

class BeastServer final : public HttpServer {
 public:
  BeastServer(Options options, HttpHandler handler)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        tls_(asio::ssl::context::tls_server),
        acceptor_(io_) {}

  absl::Status Open() {
    if (has_tls()) {
      absl::Status loaded = LoadTlsFiles(options_.certificate_file, options_.key_file, &tls_);
      if (!loaded.ok()) return loaded;
    }
    error_code failed;
    const asio::ip::address address = asio::ip::make_address(options_.host, failed);
    if (failed) return CannotListen(options_, "it is no address");
    const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(options_.port));
    acceptor_.open(endpoint.protocol(), failed);
    if (!failed) acceptor_.set_option(asio::socket_base::reuse_address(true), failed);
    if (!failed) acceptor_.bind(endpoint, failed);
    if (!failed) acceptor_.listen(asio::socket_base::max_listen_connections, failed);
    if (failed) return CannotListen(options_, failed.message());
    port_ = acceptor_.local_endpoint().port();
    return absl::OkStatus();
  }

  int port() const override { return port_; }
  bool has_tls() const override { return !options_.certificate_file.empty(); }

  void Run() override {
    asio::co_spawn(io_, Accept(), asio::detached);
    io_.run();
  }
  void Stop() override { io_.stop(); }
  void Notify() override {
    asio::post(io_, [this] {
      for (asio::steady_timer* waiting : streams_) waiting->cancel();
    });
  }

 private:
  // A stream's, however it ends.
  class StreamPlace {
   public:
    StreamPlace(BeastServer* server, asio::steady_timer* news) : server_(server), news_(news) {
      server_->streams_.insert(news_);
    }
    ~StreamPlace() { server_->streams_.erase(news_); }
    StreamPlace(const StreamPlace&) = delete;
    StreamPlace& operator=(const StreamPlace&) = delete;

   private:
    BeastServer* const server_;
    asio::steady_timer* const news_;
  };

  // As long as it lives.
  struct Connection {
    beast::tcp_stream* line = nullptr;
    bool is_put_out = false;
  };

  // A connection of which a request, or a handshake, has still to come.
  class WaitingPlace {
   public:
    WaitingPlace(BeastServer* server, Connection* connection)
        : server_(server), connection_(connection) {
      server_->waiting_.push_back(connection_);
    }
    ~WaitingPlace() { End(); }
    WaitingPlace(const WaitingPlace&) = delete;
    WaitingPlace& operator=(const WaitingPlace&) = delete;
    void End() { server_->waiting_.remove(connection_); }

   private:
    BeastServer* const server_;
    Connection* const connection_;
  };

  // Ends the connection that has waited longest, so that who holds many keeps nobody out. False:
  // all are being answered.
  bool PutOutLongestWaiting() {
    if (waiting_.empty()) return false;
    Connection* const longest = waiting_.front();
    waiting_.pop_front();
    longest->is_put_out = true;
    --connections_;
    longest->line->close();
    return true;
  }

  asio::awaitable<void> Accept() {
    error_code failed;
    while (true) {
      tcp::socket socket =
          co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, failed));
      if (failed) {  // no descriptor is left, say: later there may be
        asio::steady_timer pause(io_, std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, failed));
        continue;
      }
      if (connections_ >= options_.connections_max && !PutOutLongestWaiting()) {
        continue;  // which closes it
      }
      ++connections_;
      // An answer takes several writes; no write may wait for the confirmation of the previous one.
      socket.set_option(tcp::no_delay(true), failed);
      asio::co_spawn(io_, Welcome(std::move(socket)), asio::detached);
    }
  }

  // One connection, from its start to its end.
  asio::awaitable<void> Welcome(tcp::socket socket) {
    Connection connection;
    try {
      if (has_tls()) {
        beast::ssl_stream<beast::tcp_stream> stream(beast::tcp_stream(std::move(socket)), tls_);
        connection.line = &beast::get_lowest_layer(stream);
        connection.line->expires_after(ToChrono(options_.request_timeout));
        error_code failed;
        WaitingPlace waiting(this, &connection);
        co_await stream.async_handshake(asio::ssl::stream_base::server,
                                        asio::redirect_error(asio::use_awaitable, failed));
        waiting.End();
        if (!failed) co_await Converse(&stream, &connection);
      } else {
        beast::tcp_stream stream(std::move(socket));
        connection.line = &stream;
        co_await Converse(&stream, &connection);
      }
    } catch (const std::exception& error) {
      LogDebug("a connection of the page ended: %s", error.what());
    }
    if (!connection.is_put_out) --connections_;
  }

  template <typename Stream>
  asio::awaitable<void> Converse(Stream* stream, Connection* connection) {
    beast::tcp_stream& line = *connection->line;
    beast::flat_buffer buffer(options_.header_bytes_max + options_.body_bytes_max);
    error_code failed;
    bool is_first = true;
    while (true) {
      WaitingPlace waiting(this, connection);
      http::request_parser<http::string_body> parser;
      parser.header_limit(static_cast<std::uint32_t>(options_.header_bytes_max));
      parser.body_limit(options_.body_bytes_max);
      // The first byte may be late on a kept connection; the rest may not.
      if (buffer.size() == 0 && !is_first) {
        line.expires_after(ToChrono(options_.idle_timeout));
        const size_t read = co_await stream->async_read_some(
            buffer.prepare(1024), asio::redirect_error(asio::use_awaitable, failed));
        if (failed) co_return;
        buffer.commit(read);
      }
      is_first = false;
      line.expires_after(ToChrono(options_.request_timeout));
      co_await http::async_read(*stream, buffer, parser,
                                asio::redirect_error(asio::use_awaitable, failed));
      waiting.End();
      if (failed) {
        const int status = StatusOf(failed);
        if (status == 0) co_return;
        const HttpAnswer answer = TextAnswer(status, "this request is not taken");
        co_await Write(stream, answer, http::request<http::string_body>(), /*stays=*/false);
        co_return;
      }
      const http::request<http::string_body> request = parser.release();
      HttpAnswer answer = handler_(ToRequest(request));
      if (answer.events != nullptr && streams_.size() >= options_.streams_max) {
        answer = TextAnswer(503, absl::StrCat("as many streams of events as may be, ",
                                              options_.streams_max, ", are open"));
      }
      if (answer.events != nullptr) {
        co_await SendEvents(stream, answer, request);
        co_return;
      }
      const bool stays = request.keep_alive();
      const bool sent = co_await Write(stream, answer, request, stays);
      if (!sent || !stays) break;
    }
    line.socket().shutdown(tcp::socket::shutdown_send, failed);
  }

  // Returns the status for an unreadable request; 0: no answer, the client is gone.
  static int StatusOf(const error_code& failed) {
    if (failed == http::error::header_limit || failed == http::error::buffer_overflow) return 431;
    if (failed == http::error::body_limit) return 413;
    if (failed == beast::error::timeout || failed == http::error::end_of_stream) return 0;
    return failed.category() == http::make_error_code(http::error::bad_version).category() ? 400
                                                                                           : 0;
  }

  template <typename Message>
  void AddHeaders(const HttpAnswer& answer, Message* message) const {
    message->set(http::field::content_type, answer.type);
    for (const auto& headers : {options_.headers, answer.headers}) {
      for (const auto& [name, value] : headers) message->set(name, value);
    }
  }

  template <typename Stream>
  asio::awaitable<bool> Write(Stream* stream, const HttpAnswer& answer,
                              const http::request<http::string_body>& request, bool stays) {
    static const auto kNothing = std::make_shared<const std::string>();
    const SharedText body = answer.body == nullptr ? kNothing : answer.body;
    http::response<http::empty_body> head(static_cast<http::status>(answer.status), 11);
    AddHeaders(answer, &head);
    head.keep_alive(stays);
    if (head.result() != http::status::not_modified) head.content_length(body->size());
    http::response_serializer<http::empty_body> serializer(head);
    beast::tcp_stream& line = beast::get_lowest_layer(*stream);
    line.expires_after(ToChrono(options_.write_timeout));
    error_code failed;
    co_await http::async_write_header(*stream, serializer,
                                      asio::redirect_error(asio::use_awaitable, failed));
    if (failed) co_return false;
    if (request.method() != http::verb::head) {
      co_return co_await WriteText(stream, *body);
    }
    co_return true;
  }

  // Gives up once nothing was taken for so long, or all of it was taken too slowly: who takes a
  // byte now and then keeps no place.
  template <typename Stream>
  asio::awaitable<bool> WriteText(Stream* stream, const std::string& text) {
    error_code failed;
    const absl::Time until =
        absl::Now() + options_.write_timeout +
        absl::Seconds(static_cast<double>(text.size()) / options_.write_bytes_per_s_min);
    for (size_t sent = 0; sent < text.size();) {
      const absl::Duration left = until - absl::Now();
      if (left <= absl::ZeroDuration()) co_return false;
      beast::get_lowest_layer(*stream).expires_after(
          ToChrono(std::min(options_.write_timeout, left)));
      sent +=
          co_await stream->async_write_some(asio::buffer(text.data() + sent, text.size() - sent),
                                            asio::redirect_error(asio::use_awaitable, failed));
      if (failed) co_return false;
    }
    co_return true;
  }

  template <typename Stream>
  asio::awaitable<void> SendEvents(Stream* stream, const HttpAnswer& answer,
                                   const http::request<http::string_body>& request) {
    http::response<http::empty_body> head(http::status::ok, 11);
    AddHeaders(answer, &head);
    head.keep_alive(false);
    http::response_serializer<http::empty_body> serializer(head);
    beast::get_lowest_layer(*stream).expires_after(ToChrono(options_.write_timeout));
    error_code failed;
    co_await http::async_write_header(*stream, serializer,
                                      asio::redirect_error(asio::use_awaitable, failed));
    if (failed || request.method() == http::verb::head) co_return;
    asio::steady_timer news(io_);
    const StreamPlace place(this, &news);
    static const std::string kStillHere = ": still here\n\n";
    while (true) {
      const SharedText text = answer.events();
      if (text != nullptr && !co_await WriteText(stream, *text)) break;
      if (text != nullptr) continue;  // more may have come meanwhile
      news.expires_after(ToChrono(options_.event_pause));
      co_await news.async_wait(asio::redirect_error(asio::use_awaitable, failed));
      if (!failed && !co_await WriteText(stream, kStillHere)) break;
    }
  }

  const Options options_;
  const HttpHandler handler_;
  // Before io_, whose destruction ends conversations that still run.
  size_t connections_ = 0;
  std::list<Connection*> waiting_;         // who has waited longest is the first
  std::set<asio::steady_timer*> streams_;  // what each of them waits by
  asio::io_context io_{1};
  asio::ssl::context tls_;
  tcp::acceptor acceptor_;
  int port_ = 0;
};

}  // namespace

absl::StatusOr<ListenAddress> ResolveListenAddress(const std::string& host) {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  tcp::resolver resolver(io);
  boost::system::error_code failed;
  const auto found = resolver.resolve(host, "", tcp::resolver::passive, failed);
  if (failed || found.empty()) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", host, ": ", failed.message()));
  }
  const boost::asio::ip::address address = found.begin()->endpoint().address();
  return ListenAddress{.text = address.to_string(),
                       .is_loopback = address.is_loopback(),
                       .is_any = address.is_unspecified()};
}

HttpAnswer TextAnswer(int status, const std::string& line) {
  return {.status = status, .body = std::make_shared<const std::string>(line + "\n")};
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(Options options,
                                                               HttpHandler handler) {
  auto server = std::make_unique<BeastServer>(std::move(options), std::move(handler));
  if (absl::Status opened = server->Open(); !opened.ok()) return opened;
  return server;
}

}  // namespace strata::cli
