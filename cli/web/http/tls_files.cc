#include "cli/web/http/tls_files.h"

#include <openssl/err.h>

#include <boost/asio/buffer.hpp>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/file/atomic_file.h"

namespace strata::cli {
namespace {

namespace ssl = boost::asio::ssl;

constexpr size_t kFileBytesMax = 1 << 20;

absl::StatusOr<std::string> ReadPem(const std::string& file) {
  absl::StatusOr<std::string> text = ReadFile(file, kFileBytesMax);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  return text;
}

}  // namespace

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

}  // namespace strata::cli
