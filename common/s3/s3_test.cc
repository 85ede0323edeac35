#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/s3/http.h"
#include "common/s3/settings.h"
#include "common/s3/xml.h"

namespace strata::s3 {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Secrets of the test cases: no message may contain them.
constexpr char kSecret[] = "secret/of+the/cases";
constexpr char kToken[] = "token-of-the-cases==";

Environment Keys() {
  return {{"AWS_ACCESS_KEY_ID", "AKIDOFCASES"},
          {"AWS_SECRET_ACCESS_KEY", kSecret},
          {"AWS_SESSION_TOKEN", kToken},
          {"AWS_REGION", "eu-west-1"}};
}
Environment With(Environment environment, const Environment& others) {
  for (const auto& [name, value] : others) environment[name] = value;
  return environment;
}

void ExpectError(const std::string& address, const Environment& environment, absl::StatusCode code,
                 const std::string& text) {
  const auto settings = FindSettings(address, environment);
  ASSERT_FALSE(settings.ok()) << address;
  EXPECT_EQ(settings.status().code(), code) << settings.status();
  const std::string message(settings.status().message());
  EXPECT_THAT(message, HasSubstr(text));
  for (const char* secret : {kSecret, kToken, "AKIDOFCASES"}) {
    EXPECT_THAT(message, Not(HasSubstr(secret)));
  }
}

// A home folder with the two files.
class Home : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/.aws");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/.aws/" + name) << text;
  }
  Environment Own() const { return {{"HOME", folder_}}; }

  const std::string folder_ = ::testing::TempDir() + "/settings_test_home";
};

TEST(Settings, AmazonsEndpointHasTheRegionAndTheBucket) {
  const auto settings = FindSettings("s3://my-bucket/runs/a b/", Keys());
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->bucket, "my-bucket");
  EXPECT_EQ(settings->prefix, "runs/a b/");
  EXPECT_EQ(settings->Address(), "s3://my-bucket/runs/a b");
  EXPECT_EQ(settings->BucketUrl(), "https://my-bucket.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(settings->region, "eu-west-1");
  EXPECT_EQ(settings->credentials.key_id, "AKIDOFCASES");
  EXPECT_EQ(settings->credentials.secret, kSecret);
  EXPECT_EQ(settings->credentials.token, kToken);
  EXPECT_EQ(settings->credentials.source, "AWS_ACCESS_KEY_ID");
  EXPECT_EQ(FindSettings("s3://my.bucket", Keys())->BucketUrl(),
            "https://s3.eu-west-1.amazonaws.com/my.bucket");
  EXPECT_EQ(FindSettings("s3://my.bucket", Keys())->Address(), "s3://my.bucket");
  EXPECT_EQ(FindSettings("s3://bucket", With(Keys(), {{"AWS_REGION", "cn-north-1"}}))->BucketUrl(),
            "https://bucket.s3.cn-north-1.amazonaws.com.cn");
}

TEST(Settings, AnEndpointOfOnesOwnHasTheBucketInItsPath) {
  Environment environment = With(
      Keys(), {{"AWS_ENDPOINT_URL", "http://10.0.0.1:9000/"}, {"AWS_CA_BUNDLE", "/etc/ca.pem"}});
  environment.erase("AWS_REGION");
  EXPECT_EQ(FindSettings("s3://bucket/p", environment)->BucketUrl(), "http://10.0.0.1:9000/bucket");
  EXPECT_EQ(FindSettings("s3://bucket/p", environment)->region, "us-east-1");
  EXPECT_EQ(FindSettings("s3://bucket/p", environment)->ca_bundle, "/etc/ca.pem");
  environment["AWS_ENDPOINT_URL_S3"] = "https://[::1]:9000";
  environment["AWS_DEFAULT_REGION"] = "here";
  EXPECT_EQ(FindSettings("s3://bucket/p", environment)->BucketUrl(), "https://[::1]:9000/bucket");
  EXPECT_EQ(FindSettings("s3://bucket/p", environment)->region, "here");
}

TEST(Settings, WhatIsNoAddressIsRefused) {
  for (const std::string address :
       {"", "/path", "s3:/bucket", "s3://", "s3:///x", "s3://ab", "s3://UPPER", "s3://b_c_d",
        "s3://-abc", "s3://a..b", "s3://user:pw@host", "s3://bucket//x", "s3://bucket/a//b",
        "s3://bucket/../x", "s3://bucket/a/.", "S3://bucket"}) {
    ExpectError(address, Keys(), absl::StatusCode::kInvalidArgument, address + ": ");
  }
  ExpectError("s3://bucket/" + std::string(600, 'a'), Keys(), absl::StatusCode::kInvalidArgument,
              "more than 500 bytes");
  ExpectError("s3://bucket/a\nb", Keys(), absl::StatusCode::kInvalidArgument, "control characters");
}

TEST(Settings, WrongVariablesAreNamedAndNotShown) {
  for (const std::string value : {"10.0.0.1:9000", "ftp://host", "http://",
                                  "http://AKIDOFCASES:pw@host", "http://h/base", "http://h?x"}) {
    ExpectError("s3://bucket", With(Keys(), {{"AWS_ENDPOINT_URL_S3", value}}),
                absl::StatusCode::kInvalidArgument,
                "AWS_ENDPOINT_URL_S3 is not http[s]://HOST[:PORT]");
  }
  ExpectError("s3://bucket", With(Keys(), {{"AWS_REGION", "eu west"}}),
              absl::StatusCode::kInvalidArgument, "\"eu west\" is no region");
  ExpectError("s3://bucket", With(Keys(), {{"AWS_SECRET_ACCESS_KEY", "two\nlines"}}),
              absl::StatusCode::kInvalidArgument, "credentials of AWS_ACCESS_KEY_ID: a space");
}

TEST_F(Home, WhatIsMissingIsNamedWithWhereItWasLookedFor) {
  Environment environment = With(Keys(), Own());
  environment.erase("AWS_REGION");
  ExpectError("s3://bucket/p", environment, absl::StatusCode::kFailedPrecondition,
              "s3://bucket/p: no region: set AWS_REGION, or `region` of profile default in " +
                  folder_ + "/.aws/config");
  environment = With(Keys(), Own());
  environment.erase("AWS_SECRET_ACCESS_KEY");
  ExpectError("s3://bucket/p", environment, absl::StatusCode::kFailedPrecondition,
              "AWS_ACCESS_KEY_ID is set, AWS_SECRET_ACCESS_KEY is not");
  environment["AWS_SECRET_ACCESS_KEY"] = kSecret;
  environment.erase("AWS_ACCESS_KEY_ID");
  ExpectError("s3://bucket/p", environment, absl::StatusCode::kFailedPrecondition,
              "AWS_SECRET_ACCESS_KEY is set, AWS_ACCESS_KEY_ID is not");
  environment.erase("AWS_SECRET_ACCESS_KEY");
  ExpectError("s3://bucket/p", environment, absl::StatusCode::kFailedPrecondition,
              "s3://bucket/p: no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not "
              "set, and aws_access_key_id and aws_secret_access_key not in profile default of " +
                  folder_ + "/.aws/credentials");
  ExpectError("s3://bucket/p", With(environment, {{"AWS_PROFILE", "mine"}}),
              absl::StatusCode::kFailedPrecondition, "AWS_PROFILE is mine, which neither");
}

TEST_F(Home, AProfileHasCredentialsRegionAndEndpoint) {
  Write("credentials",
        "# a comment\n"
        "[default]\r\n"
        "aws_access_key_id = AKIDDEFAULT\r\n"
        "aws_secret_access_key=a=b==\r\n"
        "\n"
        "[mine]  ; the other one\n"
        "AWS_ACCESS_KEY_ID=AKIDMINE\n"
        "aws_secret_access_key = theirs\n"
        "aws_session_token = t\n");
  Write("config",
        "[default]\n"
        "region = us-west-2\n"
        "[profile mine]\n"
        "region = eu-north-1\n"
        "endpoint_url = http://127.0.0.1:9000\n"
        "aws_secret_access_key = not this one\n"
        "s3 =\n"
        "  max_concurrent_requests = 20\n");
  auto settings = FindSettings("s3://bucket", Own());
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->credentials.key_id, "AKIDDEFAULT");
  EXPECT_EQ(settings->credentials.secret, "a=b==");
  EXPECT_EQ(settings->credentials.token, "");
  EXPECT_EQ(settings->credentials.source, "profile default of " + folder_ + "/.aws/credentials");
  EXPECT_EQ(settings->BucketUrl(), "https://bucket.s3.us-west-2.amazonaws.com");
  settings = FindSettings("s3://bucket", With(Own(), {{"AWS_PROFILE", "mine"}}));
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->credentials.key_id, "AKIDMINE");
  EXPECT_EQ(settings->credentials.secret, "theirs");
  EXPECT_EQ(settings->credentials.token, "t");
  EXPECT_EQ(settings->region, "eu-north-1");
  EXPECT_EQ(settings->BucketUrl(), "http://127.0.0.1:9000/bucket");
  // The environment overrides it.
  settings = FindSettings("s3://bucket", With(Own(), Keys()));
  EXPECT_EQ(settings->credentials.key_id, "AKIDOFCASES");
  EXPECT_EQ(settings->region, "eu-west-1");
}

TEST_F(Home, FilesMayLieElsewhere) {
  Write("c1", "[default]\naws_access_key_id = a\naws_secret_access_key = b\n");
  Write("c2", "[default]\nregion = r\n");
  const auto settings =
      FindSettings("s3://bucket", {{"AWS_SHARED_CREDENTIALS_FILE", folder_ + "/.aws/c1"},
                                   {"AWS_CONFIG_FILE", folder_ + "/.aws/c2"}});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->credentials.source, "profile default of " + folder_ + "/.aws/c1");
  EXPECT_EQ(settings->region, "r");
}

TEST_F(Home, AFileThatIsWrongIsNamedByItsLineAndNotShown) {
  const std::string path = folder_ + "/.aws/credentials";
  Write("credentials", std::string("[default]\n") + kSecret + "\n");
  ExpectError("s3://bucket", Own(), absl::StatusCode::kInvalidArgument,
              path + ": line 2: neither [SECTION] nor NAME = VALUE");
  Write("credentials", std::string("aws_secret_access_key = ") + kSecret + "\n");
  ExpectError("s3://bucket", Own(), absl::StatusCode::kInvalidArgument,
              path + ": line 1: no [SECTION] before it");
  Write("credentials", std::string("[") + kSecret + "\n");
  ExpectError("s3://bucket", Own(), absl::StatusCode::kInvalidArgument,
              path + ": line 1: no ] follows");
}

using ::testing::HasSubstr;

TEST(Xml, AnAnswerOfS3IsRead) {
  const auto root = ParseXml(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<!-- of a bucket -->\n"
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\" a='>'>\n"
      "  <Name>b</Name><Empty/><KeyCount >2</KeyCount\n>\n"
      "  <Contents><Key>one</Key><Size>1</Size></Contents>\n"
      "  <Contents><Key>two</Key><Owner><ID>x</ID></Owner></Contents>\n"
      "</ListBucketResult>\n");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->name, "ListBucketResult");
  ASSERT_EQ(root->children.size(), 5u);
  EXPECT_EQ(root->Text("KeyCount"), "2");
  EXPECT_EQ(root->Text("Missing"), "");
  EXPECT_EQ(root->Find("Missing"), nullptr);
  ASSERT_NE(root->Find("Empty"), nullptr);
  EXPECT_EQ(root->children[3].Text("Key"), "one");
  EXPECT_EQ(root->children[4].Find("Owner")->Text("ID"), "x");
}

TEST(Xml, ReferencesStandForTheirCharacters) {
  const auto root = ParseXml(
      "<a>&lt;b&gt;&amp;amp;&quot;&apos;&#65;&#x42;&#xe4;&#8364;&#x1F600; "
      "<![CDATA[<&amp;]]]]>.</a>");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->text, "<b>&amp;\"'AB\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 <&amp;]].");
}

TEST(Xml, WhatIsEscapedIsReadAgain) {
  const std::string text = "a<b>&amp;\"c'\r\n]]>";
  const auto root = ParseXml("<a>" + EscapeXml(text) + "</a>");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->text, text);
}

TEST(Xml, WhatIsNoneIsRefusedWithThePlace) {
  const auto expect_refused = [](const std::string& document, const std::string& why) {
    const auto root = ParseXml(document);
    ASSERT_FALSE(root.ok()) << document;
    EXPECT_EQ(root.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(root.status().message()), "no XML: " + why) << document;
  };
  expect_refused("", "byte 0: no element");
  expect_refused("Bad gateway", "byte 0: no element");
  expect_refused("<a>", "byte 3: no </a> follows");
  expect_refused("<a", "byte 2: a tag that does not end");
  expect_refused("<a><b></a></b>", "byte 10: </a> in place of </b>");
  expect_refused("<a></a><b/>", "byte 7: something after the document's end");
  expect_refused("<a>&nbsp;</a>", "byte 3: an unknown reference");
  expect_refused("<a>&#x110000;</a>", "byte 3: an unknown reference");
  expect_refused("<a>&#0;</a>", "byte 3: an unknown reference");
  expect_refused("<a>&#xd800;</a>", "byte 3: an unknown reference");
  expect_refused("<a>&#-1;</a>", "byte 3: an unknown reference");
  expect_refused("<a>& b</a>", "byte 3: an unknown reference");
  expect_refused("<a b></a>", "byte 4: an attribute without a value");
  expect_refused("<a b=c></a>", "byte 5: no quotation mark");
  expect_refused("<a b='<'></a>", "byte 8: < in an attribute");
  expect_refused("<1/>", "byte 1: no name");
  expect_refused("<a><!-- </a>", "byte 7: no --> follows");
  expect_refused("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "byte 1: no name");
}

TEST(Xml, NestingIsLimited) {
  const auto nested = [](int depth) {
    std::string document;
    for (int i = 0; i < depth; ++i) document += "<a>";
    for (int i = 0; i < depth; ++i) document += "</a>";
    return document;
  };
  EXPECT_TRUE(ParseXml(nested(32)).ok());
  EXPECT_THAT(std::string(ParseXml(nested(33)).status().message()), HasSubstr("nested too deep"));
}

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
