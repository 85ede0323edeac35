#include "cli/web/web_clients.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cli/options/terminal.h"
#include "common/control/logs_client.h"

namespace strata::cli {

std::function<std::unique_ptr<control::CoordinatorClient>()> WebClients(
    const CoordinatorOptions& options) {
  control::CoordinatorClient::Options client = ClientOptions(options);
  client.deadline = std::min(client.deadline, kWebPatience);
  client.reports = true;
  return [client] { return control::CoordinatorClient::Create(client); };
}

void PrintWebLink(const std::string& url) {
  PrintF(stdout, "strata web link url=%s\n", url);
  std::fflush(stdout);
}

namespace {

class ClientLogSource final : public LogSource {
 public:
  explicit ClientLogSource(control::LogsClient::Options options) : client_(std::move(options)) {}

  absl::Status Read(const proto::ReadLogs& request,
                    const std::function<void(const proto::LogLines&)>& on_lines) override {
    return client_.Read(request, on_lines);
  }
  void Stop() override { client_.Stop(); }

 private:
  control::LogsClient client_;
};

}  // namespace

std::function<std::unique_ptr<LogSource>()> WebLogs(const CoordinatorOptions& options) {
  const control::CoordinatorClient::Options user = ClientOptions(options);
  const control::LogsClient::Options client{.coordinator = user.coordinator,
                                            .credentials = user.credentials,
                                            .deadline = std::min(user.deadline, kWebPatience)};
  return [client] { return std::make_unique<ClientLogSource>(client); };
}

}  // namespace strata::cli
