#ifndef STRATA_CLI_WEB_SITE_H_
#define STRATA_CLI_WEB_SITE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "cli/render/cluster_scene.h"
#include "cli/render/log_watch.h"
#include "cli/web/http_message.h"
#include "cli/web/login.h"
#include "cli/web/page.h"

namespace strata::cli {

// Answers of `strata web`, and access to them. Everything but the page itself, which has no data,
// needs a session; nothing changes anything. Knows nothing of sockets.
//
// Threads: one at a time.
class Site {
 public:
  struct Options {
    bool needs_login = true;
    bool has_tls = false;
    // Names by which readers may call this host, besides its addresses and localhost: a foreign
    // page whose name resolves to an address of this host can read nothing.
    std::vector<std::string> hosts;
    std::string metrics_token;  // accepted by /metrics instead of a session; empty: none
    std::string cookie = "strata_web";
    std::function<std::shared_ptr<const ClusterScene>()> scene;
    std::function<std::string(const ClusterScene&, absl::Time)> metrics;  // OpenMetrics
    // LogWatch's TakeNews; null: readers see no logs.
    std::function<bool(const LogChoice&, const LogJob&, LogPlace*, LogNews*)> log_news = nullptr;
    // A link was used: a new one opens the next session.
    std::function<void(const std::string& token)> on_new_token = [](const std::string&) {};
  };

  Site(Options options, Page page);

  HttpAnswer Answer(const HttpRequest& request, absl::Time now);
  const std::string& token() const { return login_.token(); }
  // Returns headers of every answer.
  std::vector<std::pair<std::string, std::string>> Headers() const;

 private:
  bool IsForHere(const HttpRequest& request) const;
  bool MayLook(const HttpRequest& request, absl::Time now) const;
  bool MayScrape(const HttpRequest& request, absl::Time now) const;
  HttpAnswer LogIn(const HttpRequest& request, absl::Time now);
  HttpAnswer ShowPage(const HttpRequest& request) const;
  HttpAnswer Api(const HttpRequest& request, absl::Time now);
  HttpAnswer Events(const HttpRequest& request);
  void AppendScene(const std::shared_ptr<const ClusterScene>& scene,
                   const std::vector<uint32_t>& jobs, std::string* text);
  void AppendLog(const ClusterScene& scene, const LogChoice& choice, LogPlace* place,
                 std::string* text) const;

  // Rebuilds the documents of one scene, which many readers share.
  void RebuildFrom(const std::shared_ptr<const ClusterScene>& scene);
  SharedText ClusterOf(const std::shared_ptr<const ClusterScene>& scene, absl::Time now);
  SharedText JobOf(const std::shared_ptr<const ClusterScene>& scene, uint32_t job, absl::Time now);

  const Options options_;
  const Page page_;
  Login login_;
  std::shared_ptr<const ClusterScene> made_of_;  // the scene of these documents
  SharedText cluster_;
  std::map<uint32_t, SharedText> jobs_;
};

// Returns whether a Host header names this host by an address, as localhost or by one of `hosts`.
bool IsHostAllowed(const std::string& header, const std::vector<std::string>& hosts);

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_SITE_H_
