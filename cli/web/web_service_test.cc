#include "cli/web/web_service.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Any name has this address.
WebService::Options NameOf(const std::string& name, ListenAddress address) {
  WebService::Options options;
  options.listen = name + ":0";
  options.resolve = [address = std::move(address)](const std::string&) { return address; };
  return options;
}

std::string Refusal(WebService::Options options) {
  const auto service = WebService::Open(std::move(options));
  EXPECT_TRUE(absl::IsInvalidArgument(service.status())) << service.status();
  return std::string(service.status().message());
}

TEST(WebServiceTest, ANameThatBeginsAsLoopbackDoesIsWhatItsAddressIs) {
  WebService::Options options = NameOf("127.example.org", {"0.0.0.0", false});
  EXPECT_THAT(Refusal(options), HasSubstr("--listen 127.example.org:0: beyond this host"));
  options.needs_login = false;
  EXPECT_THAT(Refusal(options), HasSubstr("--no-login with --listen 127.example.org:0"));
}

TEST(WebServiceTest, ANameOfLoopbackNeedsNeitherTlsNorALogin) {
  WebService::Options options = NameOf("head.example.org", {"127.0.0.1", true});
  options.needs_login = false;
  EXPECT_EQ(WebService::Open(options).status(), absl::OkStatus());
}

TEST(WebServiceTest, ListensAtTheAddressOfWhichItWasDecided) {
  WebService::Options options = NameOf("localhost", {"127.0.0.1", true});
  int asked = 0;
  options.resolve = [&asked](const std::string& host) -> absl::StatusOr<ListenAddress> {
    EXPECT_EQ(host, "localhost");
    // A name whose addresses change: the second would be open to all.
    return ++asked == 1 ? ListenAddress{"192.0.2.1", true} : ListenAddress{"0.0.0.0", false};
  };
  const auto service = WebService::Open(options);
  EXPECT_THAT(service.status().message(), HasSubstr("cannot listen at 192.0.2.1:0: "));
  EXPECT_EQ(asked, 1);
}

TEST(WebServiceTest, ALinkGoesToWhereItListensOrWhereThatIsEverywhereToAName) {
  const auto link = [](const std::string& listen, bool is_any, std::vector<std::string> hosts) {
    WebService::Options options = NameOf(listen, {"127.0.0.1", true, is_any});
    options.own_name = "head";
    options.hosts = std::move(hosts);
    const auto service = WebService::Open(std::move(options));
    EXPECT_EQ(service.status(), absl::OkStatus());
    return service.ok() ? (*service)->url() : "";
  };
  EXPECT_THAT(link("127.0.0.1", false, {"other"}), StartsWith("http://127.0.0.1:"));
  EXPECT_THAT(link("[::1]", false, {}), StartsWith("http://[::1]:"));
  EXPECT_THAT(link("0.0.0.0", true, {}), StartsWith("http://head:"));
  EXPECT_THAT(link("[::]", true, {"head.example.org", "other"}),
              StartsWith("http://head.example.org:"));
}

TEST(WebServiceTest, APortThatIsInUseIsSaidWithTheOptionThatTakesAnother) {
  const auto first = WebService::Open({.listen = "127.0.0.1:0"});
  ASSERT_EQ(first.status(), absl::OkStatus());
  const std::string url = (*first)->url();
  const size_t host = url.find("127.");
  const std::string taken = url.substr(host, url.find('/', host) - host);
  const std::string in_use = "cannot listen at " + taken + ": Address already in use ";
  EXPECT_EQ(WebService::Open({.listen = taken}).status(),
            absl::UnavailableError(in_use + "(by another strata web? --listen 127.0.0.1:0 takes "
                                            "any free port)"));
  EXPECT_EQ(WebService::Open({.listen = taken, .listen_option = "--web "}).status(),
            absl::UnavailableError(in_use + "(by another strata web? --web 127.0.0.1:0 takes any "
                                            "free port)"));
  EXPECT_THAT(Refusal({.listen = "here", .listen_option = "--web="}),
              StartsWith("--web=here: expected HOST:PORT"));
}

TEST(WebServiceTest, AHostWithoutAnAddressIsSaid) {
  WebService::Options options;
  options.listen = "nobody:0";
  options.resolve = [](const std::string&) { return absl::UnavailableError("no such host"); };
  EXPECT_EQ(WebService::Open(options).status(), absl::UnavailableError("no such host"));
}

}  // namespace
}  // namespace strata::cli
