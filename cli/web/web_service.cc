#include "cli/web/web_service.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/web/exposition.h"
#include "cli/web/page.h"
#include "common/os/atomic_file.h"

namespace strata::cli {
namespace {

// The first reader sees something, unless the coordinator lets it wait for longer.
constexpr absl::Duration kFirstAnswer = absl::Seconds(3);
constexpr size_t kTokenBytesMin = 16;
constexpr int64_t kTokenBytesMax = 4096;

struct Place {
  std::string host;  // without brackets
  int port = 0;
};

absl::StatusOr<Place> ParsePlace(const WebService::Options& options) {
  const std::string& listen = options.listen;
  const size_t colon = listen.rfind(':');
  Place place;
  const bool has_port = colon != std::string::npos && colon > 0 &&
                        absl::SimpleAtoi(listen.substr(colon + 1), &place.port);
  if (!has_port || place.port < 0 || place.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.listen_option, listen, ": expected HOST:PORT, as 127.0.0.1:8265"));
  }
  place.host = listen.substr(0, colon);
  if (absl::StartsWith(place.host, "[") && absl::EndsWith(place.host, "]")) {
    place.host = place.host.substr(1, place.host.size() - 2);
  }
  return place;
}

absl::Status CheckProtection(const WebService::Options& options, const ListenAddress& address) {
  if (address.is_loopback) return absl::OkStatus();
  if (!options.needs_login) {
    return absl::InvalidArgumentError(absl::StrCat("--no-login with --listen ", options.listen,
                                                   ": everybody who reaches that could look; it "
                                                   "goes with 127.0.0.1"));
  }
  if (options.certificate_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.listen_option, options.listen,
                     ": beyond this host the page goes over TLS "
                     "alone: --tls-certificate FILE --tls-key FILE; or stay at 127.0.0.1 and use "
                     "ssh -L 8265:127.0.0.1:8265"));
  }
  return absl::OkStatus();
}

// In links.
std::string LinkHost(const WebService::Options& options, const ListenAddress& address) {
  if (!address.is_any) return options.listen.substr(0, options.listen.rfind(':'));
  return options.hosts.empty() ? options.own_name : options.hosts.front();
}

absl::StatusOr<std::string> ReadToken(const std::string& file) {
  if (file.empty()) return "";
  absl::StatusOr<std::string> text = ReadFileOrPipe(file, kTokenBytesMax);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  const std::string token(absl::StripAsciiWhitespace(*text));
  if (token.size() < kTokenBytesMin) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": a token has ", kTokenBytesMin,
                                                   " characters or more, this one ", token.size()));
  }
  return token;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WebService>> WebService::Open(Options options) {
  const absl::StatusOr<Place> place = ParsePlace(options);
  if (!place.ok()) return place.status();
  const absl::StatusOr<ListenAddress> address = options.resolve(place->host);
  if (!address.ok()) return address.status();
  if (absl::Status safe = CheckProtection(options, *address); !safe.ok()) return safe;
  const absl::StatusOr<std::string> token = ReadToken(options.metrics_token_file);
  if (!token.ok()) return token.status();
  // With a name for the host others reach it, by a proxy.
  options.shows_logs |= options.needs_login && address->is_loopback && options.hosts.empty();
  auto service = std::unique_ptr<WebService>(new WebService(std::move(options), *address, *token));
  Site* const site = service->site_.get();
  HttpServer::Options server{.host = address->text,
                             .port = place->port,
                             .certificate_file = service->options_.certificate_file,
                             .key_file = service->options_.key_file,
                             .headers = site->Headers()};
  auto listening = HttpServer::Listen(std::move(server), [site](const HttpRequest& request) {
    return site->Answer(request, absl::Now());
  });
  if (!listening.ok()) {
    const bool is_taken = absl::StrContains(listening.status().message(), "in use");
    const std::string& listen = service->options_.listen;
    const std::string remedy =
        absl::StrCat(" (by another strata web? ", service->options_.listen_option,
                     listen.substr(0, listen.rfind(':')), ":0 takes any free port)");
    return absl::Status(listening.status().code(),
                        absl::StrCat(listening.status().message(), is_taken ? remedy : ""));
  }
  service->server_ = *std::move(listening);
  return service;
}

WebService::WebService(Options options, const ListenAddress& address,
                       const std::string& metrics_token)
    : options_(std::move(options)), link_host_(LinkHost(options_, address)) {
  Site::Options site;
  site.needs_login = options_.needs_login;
  site.has_tls = !options_.certificate_file.empty();
  site.hosts = options_.hosts;
  site.hosts.push_back(link_host_);
  site.metrics_token = metrics_token;
  // Cookies of a host do not depend on the port, so each page has its own.
  site.cookie = absl::StrCat("strata_web_", getpid());
  site.scene = [this] { return watch_->Look(); };
  site.metrics = Exposition;
  if (options_.shows_logs) {
    site.log_news = [this](const LogChoice& choice, const LogJob& job, LogPlace* place,
                           LogNews* news) { return logs_->TakeNews(choice, job, place, news); };
  }
  site.on_new_token = [this](const std::string& token) { options_.on_new_link(UrlFor(token)); };
  site_ = std::make_unique<Site>(std::move(site), OwnPage());
}

WebService::~WebService() {
  if (!thread_.joinable()) return;
  server_->Stop();
  thread_.join();
  watch_ = nullptr;  // which tell the server of no more news
  logs_ = nullptr;
}

void WebService::Begin(const std::string& coordinator,
                       std::function<std::unique_ptr<control::CoordinatorClient>()> connect,
                       std::function<std::unique_ptr<LogSource>()> connect_logs) {
  HttpServer* const server = server_.get();
  logs_ = std::make_unique<LogWatch>(LogWatch::Options{
      .connect = std::move(connect_logs), .on_change = [server] { server->Notify(); }});
  watch_ = std::make_unique<ClusterWatch>(
      ClusterWatch::Options{.coordinator = coordinator,
                            .connect = std::move(connect),
                            .on_change = [server, logs = logs_.get()] {
                              logs->Sweep();
                              server->Notify();
                            }});
  watch_->AwaitFirst(kFirstAnswer);
  thread_ = std::thread([this] { server_->Run(); });
}

std::string WebService::UrlFor(const std::string& token) const {
  return absl::StrCat(server_->has_tls() ? "https://" : "http://", link_host_, ":", server_->port(),
                      "/", options_.needs_login ? absl::StrCat("#token=", token) : "");
}

}  // namespace strata::cli
