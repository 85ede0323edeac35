#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/s3/http.h"
#include "common/s3/xml.h"

namespace strata::s3 {
namespace {

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
