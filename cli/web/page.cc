#include "cli/web/page.h"

#include <openssl/evp.h>
#include <zlib.h>

#include <array>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "cli/web/page_files.h"
#include "common/require.h"
#include "compare/report/palette.h"

namespace strata::cli {
namespace {

// In base64, as a policy writes it.
std::string Sha256(absl::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  unsigned int bytes = 0;
  STRATA_REQUIRE(EVP_Digest(text.data(), text.size(), hash.data(), &bytes, EVP_sha256(), nullptr) ==
                 1);
  return absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(hash.data()), bytes));
}

SharedText Share(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

SharedText Gzip(const std::string& text) {
  constexpr int kWindowOfGzip = 15 + 16;
  z_stream stream = {};
  STRATA_REQUIRE(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kWindowOfGzip, 9,
                              Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = text.size();
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = packed.size();
  STRATA_REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return Share(std::move(packed));
}

}  // namespace

Page MakePage(const std::string& html, const std::string& css, const std::string& js,
              const std::string& chart_js, const std::string& palette) {
  Page page;
  // In one pass: what is put in is not searched for places.
  page.html = Share(absl::StrReplaceAll(
      html, {{"{{style}}", css}, {"{{page_js}}", js}, {"{{palette}}", palette}}));
  page.html_gzip = Gzip(*page.html);
  page.chart_js = Share(chart_js);
  page.chart_js_gzip = Gzip(chart_js);
  page.chart_js_tag = absl::StrCat("\"", Sha256(chart_js), "\"");
  page.policy = absl::StrCat("default-src 'none'; connect-src 'self'; style-src 'sha256-",
                             Sha256(css), "'; script-src 'self' 'sha256-", Sha256(js),
                             "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  return page;
}

Page OwnPage() { return MakePage(kWebHtml, kWebCss, kWebJs, kChartJs, compare::PaletteJson()); }

}  // namespace strata::cli
