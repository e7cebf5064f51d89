#include <runtime/communicator/reduce_kernels.hpp>

#include <cstdint>
#include <type_traits>

// One version for each instruction set, chosen when the program is loaded. The sanitizers' runtime
// is not up yet at that time.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(FTRT_SANITIZED)
#define FTRT_EVERY_TARGET __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FTRT_EVERY_TARGET
#endif

namespace ftrt::shm {
namespace {

struct sum_of {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {  // wraps around
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                            static_cast<std::make_unsigned_t<T>>(b));
    } else {
      return a + b;
    }
  }
};

struct max_of {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return b > a ? b : a;
    } else {
      return (b > a || b != b) && a == a ? b : a;
    }
  }
};

template <class Op, class T>
FTRT_EVERY_TARGET void combine(std::byte* out, const std::byte* a, const std::byte* b,
                               std::size_t count) {
  T* __restrict to = reinterpret_cast<T*>(out);
  const T* __restrict left = reinterpret_cast<const T*>(a);
  const T* __restrict right = reinterpret_cast<const T*>(b);
  for (std::size_t i = 0; i < count; ++i) to[i] = Op::apply(left[i], right[i]);
}

template <class Op, class T>
FTRT_EVERY_TARGET void accumulate(std::byte* inout, const std::byte* x, std::size_t count) {
  T* __restrict to = reinterpret_cast<T*>(inout);
  const T* __restrict from = reinterpret_cast<const T*>(x);
  for (std::size_t i = 0; i < count; ++i) to[i] = Op::apply(to[i], from[i]);
}

template <class Op, class T>
FTRT_EVERY_TARGET void combine_in_both(std::byte* a, std::byte* b, std::size_t count) {
  T* __restrict left = reinterpret_cast<T*>(a);
  T* __restrict right = reinterpret_cast<T*>(b);
  for (std::size_t i = 0; i < count; ++i) {
    const T value = Op::apply(left[i], right[i]);
    left[i] = value;
    right[i] = value;
  }
}

template <class Op, class T>
constexpr reduce_kernel kernel{&combine<Op, T>, &accumulate<Op, T>, &combine_in_both<Op, T>};

template <class T>
const reduce_kernel* kernel_of(reduce_op op) {
  static const reduce_kernel sum = kernel<sum_of, T>;
  static const reduce_kernel max = kernel<max_of, T>;
  return op == reduce_op::sum ? &sum : &max;
}

}  // namespace

const reduce_kernel* kernel_for(dtype type, reduce_op op) {
  switch (type) {
    case dtype::f32:
      return kernel_of<float>(op);
    case dtype::f64:
      return kernel_of<double>(op);
    case dtype::i64:
      return kernel_of<std::int64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace ftrt::shm
