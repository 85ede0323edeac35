#include "common/s3/curl_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::s3 {
namespace {

using ::testing::StartsWith;

TEST(CurlLibrary, TheLibraryOfThisHostIsLoaded) {
  const auto curl = LoadCurl();
  ASSERT_TRUE(curl.ok()) << curl.status();
  CURL* const easy = curl->easy_init();
  EXPECT_NE(easy, nullptr);
  curl->easy_cleanup(easy);
}

TEST(CurlLibrary, WhereItIsMissingTheErrorSaysWhatToInstall) {
  const auto curl = LoadCurl("libcurl_of_another_host.so.4");
  EXPECT_EQ(curl.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(curl.status().message()),
              StartsWith("S3 needs libcurl.so.4 (apt-get install libcurl4): "
                         "libcurl_of_another_host.so.4: "));
}

TEST(CurlLibrary, AnotherLibraryIsNotTakenForIt) {
  EXPECT_EQ(LoadCurl("libm.so.6").status().message(),
            "S3 needs libcurl.so.4 (apt-get install libcurl4): no curl_global_init in it");
}

}  // namespace
}  // namespace strata::s3
