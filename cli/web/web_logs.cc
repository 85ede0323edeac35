#include "cli/web/web_logs.h"

#include <algorithm>
#include <utility>

#include "cli/options/web_options.h"
#include "common/control/calls/logs_client.h"

namespace strata::cli {
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
