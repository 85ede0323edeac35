#ifndef STRATA_CLI_WEB_HTTP_TLS_FILES_H_
#define STRATA_CLI_WEB_HTTP_TLS_FILES_H_

#include <boost/asio/ssl/context.hpp>
#include <string>

#include "absl/status/status.h"

namespace strata::cli {

// Lets a server speak TLS 1.2 and later with the certificate and the key of two files in PEM form.
// It asks nobody for a pass phrase. Errors, each in one line that names the file: InvalidArgument.
absl::Status LoadTlsFiles(const std::string& certificate_file, const std::string& key_file,
                          boost::asio::ssl::context* context);

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_HTTP_TLS_FILES_H_
