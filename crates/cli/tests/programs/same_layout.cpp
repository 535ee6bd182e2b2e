// Containers of equal layout, and containers inside containers: TRUTH function type bytes (-1: only the type is known).
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>
#define NI __attribute__((noinline))
static void truth(const char* f, const char* t, long n) { printf("TRUTH\t%s\t%s\t%ld\n", f, t, n); }
struct Foo { long a; }; struct Bar { long b; }; struct Key { long a; int b; }; struct Pt { long a; int b; };
static Foo foo; static Bar bar;
template <class T> T* hold() { return new (std::malloc(sizeof(T))) T(); }
static std::vector<Foo*> a; static std::vector<Bar*> b; static std::vector<long> c; static std::vector<unsigned long> d; static std::vector<Key> e; static std::vector<Pt> f; static std::vector<Foo> g; static std::vector<Bar> h;
NI void same1() { for (int i = 0; i < 100; i++) a.push_back(&foo); truth("same1", "std::vector<Foo*>", a.capacity() * 8); }
NI void same2() { for (int i = 0; i < 100; i++) b.push_back(&bar); truth("same2", "std::vector<Bar*>", b.capacity() * 8); }
NI void same3() { for (int i = 0; i < 100; i++) c.push_back(i); truth("same3", "std::vector<long>", c.capacity() * 8); }
NI void same4() { for (int i = 0; i < 100; i++) d.push_back(i); truth("same4", "std::vector<unsigned long>", d.capacity() * 8); }
NI void same5() { for (int i = 0; i < 100; i++) e.push_back({i, i}); truth("same5", "std::vector<Key>", e.capacity() * 16); }
NI void same6() { for (int i = 0; i < 100; i++) f.push_back({i, i}); truth("same6", "std::vector<Pt>", f.capacity() * 16); }
NI void same7() { for (int i = 0; i < 100; i++) g.push_back({i}); truth("same7", "std::vector<Foo>", g.capacity() * 8); }
NI void same8() { for (int i = 0; i < 100; i++) h.push_back({i}); truth("same8", "std::vector<Bar>", h.capacity() * 8); }
static std::map<int, Foo*> m1; static std::map<int, Bar*> m2; static std::unordered_map<long, Foo*> u1; static std::unordered_map<long, Bar*> u2;
NI void maps1() { for (int i = 0; i < 50; i++) m1[i] = &foo; truth("maps1", "std::map<int, Foo*>", 50 * 48); }
NI void maps2() { for (int i = 0; i < 50; i++) m2[i] = &bar; truth("maps2", "std::map<int, Bar*>", 50 * 48); }
NI void maps3() { for (int i = 0; i < 50; i++) u1[i] = &foo; truth("maps3", "std::unordered_map<long, Foo*>", -1); }
NI void maps4() { for (int i = 0; i < 50; i++) u2[i] = &bar; truth("maps4", "std::unordered_map<long, Bar*>", -1); }
static std::vector<std::vector<std::vector<int>>> vvv; static std::map<std::string, std::vector<std::string>> ms;
NI void nested(const std::vector<std::vector<std::vector<int>>>& v) { vvv = v; truth("nested", "std::vector<std::vector<std::vector<int>>>", 3 * 24); truth("nested", "std::vector<std::vector<int>>", 3 * 4 * 24); truth("nested", "std::vector<int>", 3 * 4 * 5 * 4); }
NI void nested_map(const std::map<std::string, std::vector<std::string>>& m) { ms = m; truth("nested_map", "std::map<std::string, std::vector<std::string>>", -1); truth("nested_map", "std::vector<std::string>", -1); truth("nested_map", "std::string", -1); }
struct Names : std::vector<std::string> { void add(const char* s) { emplace_back(s); } }; static Names names;
NI void derived() { for (int i = 0; i < 20; i++) names.add("a text that is long enough for the heap"); truth("derived", "std::vector<std::string>", names.capacity() * 32); truth("derived", "std::string", 20 * 40); }
static char output[1 << 16];
int main() { setvbuf(stdout, output, _IOFBF, sizeof output); same1(); same2(); same3(); same4(); same5(); same6(); same7(); same8(); maps1(); maps2(); maps3(); maps4(); nested(std::vector<std::vector<std::vector<int>>>(3, std::vector<std::vector<int>>(4, std::vector<int>(5))));
  nested_map({{"a key that is long enough for the heap", {"text that is long enough for the heap too", "b"}}}); derived(); fflush(stdout); _Exit(0); }
