#include "cli/web/http/listen_address.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "absl/strings/str_cat.h"

namespace strata::cli {

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

}  // namespace strata::cli
