#include <capnp/message.h>
#include <capnp/schema.h>
#include <capnp/serialize.h>
#include <gtest/gtest.h>
#include <protocol.capnp.h>

#include <cstring>
#include <functional>
#include <iostream>
#include <random>
#include <schemas/protocol/limits.hpp>
#include <schemas/protocol/messages.hpp>
#include <tests/schemas/protocol/random_message.hpp>

namespace ftrt::protocol {
namespace {

using testing::message_source;
using bytes = std::vector<std::byte>;
constexpr auto types = std::variant_size_v<message>;

bytes encoded(const message& m) {
  auto made = encode(m);
  EXPECT_TRUE(made.has_value()) << name_of(m);
  return made.value_or(bytes{});
}

// What a sender of another build, or an enemy, may put into an envelope.
bytes built(const std::function<void(wire::Envelope::Builder)>& fill) {
  capnp::MallocMessageBuilder builder;
  auto envelope = builder.initRoot<wire::Envelope>();
  envelope.setVersion(protocol_version);
  fill(envelope);
  const auto words = capnp::messageToFlatArray(builder);
  bytes made(words.asBytes().size());
  std::memcpy(made.data(), words.asBytes().begin(), made.size());
  return made;
}

bytes of_words(std::initializer_list<std::uint64_t> words) {
  bytes made(words.size() * 8);
  std::memcpy(made.data(), std::data(words), made.size());
  return made;
}

error_code code_of(const result<message>& r) {
  EXPECT_FALSE(r.has_value()) << (r ? name_of(*r) : "");
  return r ? error_code::internal : r.error().code;
}

// Any answer but a crash, a hang, or our own assertion.
bool is_error_of_the_sender(const error& e) {
  return e.code == error_code::corrupt || e.code == error_code::unsupported ||
         e.code == error_code::refused;
}

class hostile : public ::testing::Test {
 protected:
  ~hostile() override {
    if (HasFailure()) std::cerr << "seed " << seed << '\n';
  }
  // Whatever is read must be a message that we would send ourselves.
  static void decode_safely(std::span<const std::byte> input) {
    const auto got = decode(input);
    if (!got) {
      EXPECT_TRUE(is_error_of_the_sender(got.error())) << got.error().describe();
      EXPECT_FALSE(got.error().message.empty());
    } else {
      EXPECT_EQ(violation(*got), "");
    }
  }
  const std::uint64_t seed = std::random_device{}();
  message_source source{seed};
};

TEST_F(hostile, every_truncation_of_every_message_is_an_error) {
  for (std::size_t type = 0; type < types; ++type) {
    const auto whole = encoded(source.of_type(type));
    for (std::size_t n = 0; n < whole.size(); ++n) {
      const auto got = decode(std::span{whole}.first(n));
      ASSERT_FALSE(got.has_value()) << "type " << type << " cut to " << n << " bytes";
      EXPECT_EQ(got.error().code, error_code::corrupt) << got.error().describe();
    }
  }
}

TEST_F(hostile, bytes_after_the_message_are_an_error) {
  auto longer = encoded(query{});
  longer.resize(longer.size() + 8);
  EXPECT_EQ(code_of(decode(longer)), error_code::corrupt);
}

TEST_F(hostile, every_single_bit_flip_gives_an_error_or_a_valid_message) {
  for (std::size_t type = 0; type < types; ++type) {
    auto whole = encoded(source.of_type(type));
    const auto bits = std::min<std::size_t>(whole.size() * 8, 8000);
    for (std::size_t bit = 0; bit < bits; ++bit) {
      const auto mask = static_cast<std::byte>(1u << (bit % 8));
      whole[bit / 8] ^= mask;
      decode_safely(whole);
      whole[bit / 8] ^= mask;
    }
  }
}

TEST_F(hostile, another_version_is_unsupported_whatever_else_it_holds) {
  EXPECT_EQ(code_of(decode(built([](auto e) { e.setVersion(2), e.initQuery(); }))),
            error_code::unsupported);
  EXPECT_EQ(code_of(decode(built([](auto e) { e.setVersion(0), e.initQuery(); }))),
            error_code::unsupported);
}

TEST_F(hostile, an_unknown_message_type_is_unsupported) {
  auto made = encoded(query{});
  // One segment: table, root pointer, then the envelope's word: version, tag.
  std::uint16_t tag = types;
  std::memcpy(made.data() + 18, &tag, sizeof tag);
  EXPECT_EQ(code_of(decode(made)), error_code::unsupported);
  tag = 0xFFFF;
  std::memcpy(made.data() + 18, &tag, sizeof tag);
  EXPECT_EQ(code_of(decode(made)), error_code::unsupported);
}

TEST_F(hostile, an_envelope_without_its_message_is_corrupt) {
  EXPECT_EQ(code_of(decode(built([](auto) {}))), error_code::corrupt);
}

TEST_F(hostile, enums_beyond_their_range_are_corrupt) {
  constexpr auto corrupt = error_code::corrupt;
  for (const std::uint16_t wild : {std::uint16_t{100}, std::uint16_t{256}, std::uint16_t{0xFFFF}}) {
    EXPECT_EQ(code_of(decode(built([wild](auto e) {
                auto m = e.initJoin();
                m.setWorldSize(1);
                m.setRole(static_cast<wire::StateRole>(wild));
              }))),
              corrupt);
    EXPECT_EQ(code_of(decode(built([wild](auto e) {
                e.initHello().setPhase(static_cast<wire::WorkerPhase>(wild));
              }))),
              corrupt);
    EXPECT_EQ(code_of(decode(built([wild](auto e) {
                e.initJoinFailed().setCode(static_cast<wire::ErrorCode>(wild));
              }))),
              corrupt);
    EXPECT_EQ(code_of(decode(built([wild](auto e) {
                auto t = e.initZygoteReady().initLayout().initTensors(1)[0];
                t.setName("w");
                t.setDtype(static_cast<wire::Dtype>(wild));
              }))),
              corrupt);
  }
}

TEST_F(hostile, fields_beyond_their_limits_are_corrupt) {
  constexpr auto corrupt = error_code::corrupt;
  EXPECT_EQ(code_of(decode(built([](auto e) { e.initForkWorker().setRank(65536); }))), corrupt);
  EXPECT_EQ(code_of(decode(built([](auto e) { e.initWorkerForked().setPid(-1); }))), corrupt);
  EXPECT_EQ(code_of(decode(built([](auto e) { e.initHello().setPid(-1); }))), corrupt);
  EXPECT_EQ(code_of(decode(built([](auto e) {
              auto m = e.initSnapshotReady();
              m.setParts(2), m.setPart(2);
            }))),
            corrupt);
  EXPECT_EQ(code_of(decode(built([](auto e) {
              auto m = e.initJoin();
              m.setWorldSize(0);
            }))),
            corrupt);
}

TEST_F(hostile, a_layout_that_overlaps_or_overflows_is_corrupt) {
  const auto with = [](std::int64_t extent, std::uint64_t size, std::uint64_t offset,
                       std::uint64_t arena = 1 << 20) {
    return built([=](wire::Envelope::Builder e) {
      auto layout = e.initZygoteReady().initLayout();
      layout.setArenaBytes(arena);
      auto t = layout.initTensors(1)[0];
      t.setName("w");
      auto shape = t.initShape(3);
      for (unsigned i = 0; i < 3; ++i) shape.set(i, extent);
      t.setSizeBytes(size);
      t.setOffsetBytes(offset);
    });
  };
  EXPECT_TRUE(decode(with(2, 32, 64)).has_value());
  EXPECT_EQ(code_of(decode(with(-2, 32, 64))), error_code::corrupt);
  EXPECT_EQ(code_of(decode(with(1ll << 40, 0, 64))), error_code::corrupt);
  EXPECT_EQ(code_of(decode(with(2, 31, 64))), error_code::corrupt);
  EXPECT_EQ(code_of(decode(with(2, 32, 65))), error_code::corrupt);
  EXPECT_EQ(code_of(decode(with(2, 32, ~0ull - 63))), error_code::corrupt);
  EXPECT_EQ(code_of(decode(with(2, 32, ~0ull - 63, ~0ull))), error_code::corrupt);
}

// ---- pointers made by hand ---------------------------------------------------------------------
// Words of one segment: [0] root pointer -> envelope at [1] (1 data word, 1 pointer word at [2]).

constexpr std::uint64_t struct_pointer(std::int32_t offset, std::uint16_t data,
                                       std::uint16_t pointers) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(offset) << 2)) |
         static_cast<std::uint64_t>(data) << 32 | static_cast<std::uint64_t>(pointers) << 48;
}
constexpr std::uint64_t list_pointer(std::int32_t offset, std::uint64_t size_tag,
                                     std::uint64_t count) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(offset) << 2) | 1) |
         size_tag << 32 | count << 35;
}
constexpr std::uint64_t table(std::uint32_t words) {
  return static_cast<std::uint64_t>(words) << 32;
}
constexpr std::uint64_t envelope_of(std::size_t type) {
  return 1 | type << 16;
}

constexpr std::size_t refused_type = 3;
static_assert(std::is_same_v<std::variant_alternative_t<refused_type, message>, zygote_refused>);

TEST_F(hostile, many_pointers_to_one_text_are_stopped_by_the_traversal_limit) {
  // 200 diagnostics whose 5 texts are all the same 1000 bytes: a megabyte out of ten kilobytes.
  constexpr std::uint32_t count = 200;
  constexpr std::uint32_t each = 6;  // words of a diagnostic: 1 of data, 5 pointers
  bytes made((1 + 4 + 1 + count * each + 125) * 8);
  std::size_t at = 0;
  const auto put = [&](std::uint64_t word) { std::memcpy(made.data() + 8 * at++, &word, 8); };
  put(table(static_cast<std::uint32_t>(made.size() / 8 - 1)));
  put(struct_pointer(0, 1, 1));
  put(envelope_of(refused_type));
  put(struct_pointer(0, 0, 1));
  put(list_pointer(0, 7, count * each));
  put(static_cast<std::uint64_t>(count) << 2 | 1ull << 32 | 5ull << 48);  // tag of the elements
  const auto text_at = static_cast<std::int32_t>(at + count * each);
  for (std::uint32_t i = 0; i < count; ++i) {
    put(0);
    for (int p = 0; p < 5; ++p) {
      put(list_pointer(text_at - static_cast<std::int32_t>(at) - 1, 2, 1000));
    }
  }
  ASSERT_EQ(code_of(decode(made)), error_code::corrupt);
  EXPECT_NE(decode(made).error().message.find("limit"), std::string::npos)
      << decode(made).error().describe();
}

TEST_F(hostile, lists_of_nothing_do_not_take_memory) {
  // An inline composite list of half a billion elements of zero words, and a list of voids.
  constexpr std::uint64_t many = (1ull << 29) - 1;
  EXPECT_EQ(code_of(decode(of_words({table(5), struct_pointer(0, 1, 1), envelope_of(refused_type),
                                     struct_pointer(0, 0, 1), list_pointer(0, 7, 0), many << 2}))),
            error_code::corrupt);
  EXPECT_EQ(code_of(decode(of_words({table(4), struct_pointer(0, 1, 1), envelope_of(refused_type),
                                     struct_pointer(0, 0, 1), list_pointer(0, 0, many)}))),
            error_code::corrupt);
}

TEST_F(hostile, pointers_in_a_circle_or_out_of_the_message_are_corrupt) {
  for (const std::int32_t offset : {-4, -3, -2, -1, 0, 1, 100, -(1 << 29), (1 << 29) - 1}) {
    for (std::size_t type = 0; type < types; ++type) {
      decode_safely(of_words({table(4), struct_pointer(0, 1, 1), envelope_of(type),
                              struct_pointer(offset, 0, 1), struct_pointer(offset, 1, 1)}));
      decode_safely(of_words({table(4), struct_pointer(0, 1, 1), envelope_of(type),
                              struct_pointer(0, 0, 1), list_pointer(offset, 7, 1)}));
    }
  }
  // Far pointers into segments that do not exist, and a far pointer to a far pointer.
  decode_safely(of_words({table(1), 0x0000000500000002ull}));
  decode_safely(of_words({table(2), 0x000000000000000Aull, 0x0000000000000002ull}));
  // A root that is a list, a capability, or points to itself.
  decode_safely(of_words({table(1), list_pointer(0, 7, 1)}));
  decode_safely(of_words({table(1), 3}));
  decode_safely(of_words({table(1), struct_pointer(-1, 1, 0)}));
}

TEST_F(hostile, segment_tables_that_lie_are_corrupt) {
  EXPECT_EQ(code_of(decode(of_words({0}))), error_code::corrupt);
  EXPECT_EQ(code_of(decode(of_words({table(0xFFFFFFFF), 0}))), error_code::corrupt);
  EXPECT_EQ(code_of(decode(of_words({0x00000001FFFFFFFFull, 0}))), error_code::corrupt);
  EXPECT_EQ(code_of(decode(of_words({0x000000010000003Full, 0}))), error_code::corrupt);
  EXPECT_EQ(code_of(decode(of_words({0xFFFFFFFF00000001ull, 0xFFFFFFFFull, 0}))),
            error_code::corrupt);
}

TEST_F(hostile, a_hundred_thousand_random_inputs_are_survived) {
  bytes input;
  for (int i = 0; i < 100'000; ++i) {
    input.resize(8 * source.below(40));
    for (std::size_t at = 0; at < input.size(); at += 8) {
      // Small numbers more often than noise: they look like tables, pointers and versions.
      const auto word = source.number() >> (source.below(8) * 8);
      std::memcpy(input.data() + at, &word, 8);
    }
    if (source.below(2) == 0 && input.size() >= 24) {
      const auto head = {table(static_cast<std::uint32_t>(input.size() / 8 - 1)),
                         struct_pointer(0, 1, 1), envelope_of(source.below(types + 1))};
      std::memcpy(input.data(), std::data(head), 24);
    }
    decode_safely(input);
    if (HasFailure()) FAIL() << "input " << i;
  }
}

TEST_F(hostile, two_hundred_thousand_damaged_messages_are_survived) {
  std::vector<bytes> good;
  for (int i = 0; i < 400; ++i) good.push_back(encoded(source.any()));
  for (int i = 0; i < 200'000; ++i) {
    auto input = good[source.below(good.size())];
    for (auto damages = 1 + source.below(4); damages > 0; --damages) {
      const auto at = 8 * source.below(input.size() / 8);
      const auto word = source.number() >> (source.below(8) * 8);
      switch (source.below(4)) {
        case 0:
          input[at + source.below(8)] = static_cast<std::byte>(word);
          break;
        case 1:
          std::memcpy(input.data() + at, &word, 8);
          break;
        case 2:  // one word of the message in the place of another
          std::memcpy(input.data() + at, input.data() + 8 * source.below(input.size() / 8), 8);
          break;
        default: {
          const auto& other = good[source.below(good.size())];
          const auto from = 8 * source.below(other.size() / 8);
          std::memcpy(input.data() + at, other.data() + from, 8);
        }
      }
    }
    decode_safely(input);
    if (HasFailure()) FAIL() << "input " << i;
  }
}

}  // namespace
}  // namespace ftrt::protocol
