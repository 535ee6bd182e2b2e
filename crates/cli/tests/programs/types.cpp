// Keeps blocks of known types live and prints how many bytes of each there are: TRUTH function type bytes (-1: only the type is known).
#include <any>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>
#define NI __attribute__((noinline))
static void truth(const char* f, const char* t, long n) { printf("TRUTH\t%s\t%s\t%ld\n", f, t, n); }
template <class T> struct Hold { alignas(T) unsigned char b[sizeof(T)]; T* p() { return reinterpret_cast<T*>(b); } };
#define KEEP(T, name, ...) static Hold<T> hold_##name; T& name = *new (hold_##name.b) T(__VA_ARGS__); asm volatile("" : : "r"(&name) : "memory")
struct Session { long id; char b[88]; Session(long i = 0) : id(i) {} };
struct Point { double x, y; };
struct Key { long a; int b; bool operator<(const Key& o) const { return a < o.a; } bool operator==(const Key& o) const { return a == o.a; } };
struct KeyHash { size_t operator()(const Key& k) const { return k.a; } };
struct Shape { virtual ~Shape() {} virtual double area() const = 0; };
struct Circle : Shape { double r[20]; Circle(double x) { r[0] = x; } double area() const override { return r[0]; } };
struct Square : Shape { double s[33]; Square(double x); double area() const override; };
NI Square::Square(double x) { s[0] = x; }
NI double Square::area() const { return s[0]; }
volatile int zero = 0; void* volatile sink;
using P = std::pair<int, Point>;
NI void vector_push() { KEEP(std::vector<Point>, v); for (int i = 0; i < 1000; i++) v.push_back({1.0 * i, 0}); truth("vector_push", "std::vector<Point>", v.capacity() * 16); }
NI void vector_emplace() { KEEP(std::vector<Session>, v); for (int i = 0; i < 100; i++) v.emplace_back(i); truth("vector_emplace", "std::vector<Session>", v.capacity() * 96); }
NI void vector_reserve() { KEEP(std::vector<Key>, v); v.reserve(500); truth("vector_reserve", "std::vector<Key>", v.capacity() * 16); }
NI void vector_sized() { KEEP(std::vector<double>, v, 777 + zero); truth("vector_sized", "std::vector<double>", v.capacity() * 8); }
NI void vector_resize() { KEEP(std::vector<int>, v); v.resize(3000); truth("vector_resize", "std::vector<int>", v.capacity() * 4); }
NI void vector_insert() { int a[500] = {}; KEEP(std::vector<int>, v); v.insert(v.end(), a, a + 500); truth("vector_insert", "std::vector<int>", v.capacity() * 4); }
NI void vector_copy() { std::vector<Session> w(50); asm volatile("" : : "r"(&w) : "memory"); KEEP(std::vector<Session>, v, w); truth("vector_copy", "std::vector<Session>", v.capacity() * 96); }
NI void vector_list() { static std::vector<float> v; v = {1, 2, 3, 4, 5, 6, 7}; truth("vector_list", "std::vector<float>", 28); }
NI void vector_bool() { KEEP(std::vector<bool>, v, 80000 + zero); truth("vector_bool", "std::vector<bool>", 10000); }
NI void vector_vector() { KEEP(std::vector<std::vector<short>>, v); long in = 0; for (int i = 0; i < 100; i++) { std::vector<short> w; for (int k = 0; k <= i; k++) w.push_back(k); in += w.capacity() * 2; v.push_back(std::move(w)); } truth("vector_vector", "std::vector<std::vector<short>>", v.capacity() * 24); truth("vector_vector", "std::vector<short>", in); }
NI void vector_unique() { KEEP(std::vector<std::unique_ptr<Session>>, v); for (int i = 0; i < 100; i++) v.push_back(std::make_unique<Session>(i)); truth("vector_unique", "std::vector<std::unique_ptr<Session>>", v.capacity() * 8); truth("vector_unique", "Session", 9600); }
NI void vector_string() { KEEP(std::vector<std::string>, v); long n = 0; for (int i = 0; i < 60; i++) { v.push_back("a rather long text number " + std::to_string(i)); } for (auto& s : v) n += s.capacity() + 1; truth("vector_string", "std::vector<std::string>", v.capacity() * 32); truth("vector_string", "std::string", n); }
NI void string_literal() { KEEP(std::string, s, "a text that is too long for the short form"); truth("string_literal", "std::string", s.capacity() + 1); }
NI void string_append() { KEEP(std::string, s); for (int i = 0; i < 3000; i++) s += 'x'; s.append("abc"); truth("string_append", "std::string", s.capacity() + 1); }
NI void string_copy() { std::string t(1000 + zero, 'x'); KEEP(std::string, s, t); truth("string_copy", "std::string", s.capacity() + 1); }
NI void string_wide() { KEEP(std::wstring, s, 100 + zero, L'x'); truth("string_wide", "std::wstring", (s.capacity() + 1) * 4); }
NI void map_index() { using M = std::map<int, Point>; KEEP(M, m); for (int i = 0; i < 100; i++) m[i] = {1, 2}; truth("map_index", "std::map<int, Point>", 100 * 56); }
NI void map_emplace() { using M = std::map<std::string, Session>; KEEP(M, m); for (int i = 0; i < 10; i++) m.emplace(std::to_string(i), Session(i)); truth("map_emplace", "std::map<std::string, Session>", 10 * (32 + 32 + 96)); }
NI void map_insert() { using M = std::multimap<Key, int>; KEEP(M, m); for (int i = 0; i < 100; i++) m.insert({Key{i, 1}, 1}); truth("map_insert", "std::multimap<Key, int>", 100 * 56); }
NI void set_insert() { KEEP(std::set<long>, m); for (int i = 0; i < 100; i++) m.insert(i); truth("set_insert", "std::set<long>", 4000); }
NI void set_copy() { std::set<int> t{1, 2, 3, 4, 5}; KEEP(std::set<int>, m, t); truth("set_copy", "std::set<int>", 5 * 40); }
NI void unordered() { using M = std::unordered_map<int, Session>; KEEP(M, m); for (int i = 0; i < 100; i++) m[i] = Session(i); truth("unordered", "std::unordered_map<int, Session>", 100 * 112 + m.bucket_count() * 8); }
NI void unordered_reserve() { using M = std::unordered_map<std::string, int>; KEEP(M, m); m.reserve(1000); m.emplace("x", 1); truth("unordered_reserve", "std::unordered_map<std::string, int>", m.bucket_count() * 8 + 56); }
NI void unordered_set() { using M = std::unordered_set<Key, KeyHash>; KEEP(M, m); for (int i = 0; i < 100; i++) m.insert(Key{i, 2}); truth("unordered_set", "std::unordered_set<Key>", -1); }
NI void deque_push() { KEEP(std::deque<Point>, d); for (int i = 0; i < 1000; i++) d.push_back({1, 2}); truth("deque_push", "std::deque<Point>", -1); }
NI void queue_push() { KEEP(std::queue<Session>, d); for (int i = 0; i < 100; i++) d.push(Session(i)); truth("queue_push", "std::deque<Session>", -1); }
NI void list_push() { KEEP(std::list<Session>, d); for (int i = 0; i < 100; i++) d.push_back(Session(i)); truth("list_push", "std::list<Session>", 11200); }
NI void forward() { KEEP(std::forward_list<Key>, d); for (int i = 0; i < 100; i++) d.push_front(Key{i, 1}); truth("forward", "std::forward_list<Key>", 2400); }
NI void shared_make() { for (int i = 0; i < 100; i++) { auto p = std::make_shared<Session>(i); KEEP(std::shared_ptr<Session>, q, p); sink = q.get(); new std::shared_ptr<Session>(p); } truth("shared_make", "std::make_shared<Session>", 11200); truth("shared_make", "std::shared_ptr<Session>", 1600); }
NI void shared_new() { KEEP(std::shared_ptr<Shape>, q, new Circle(zero)); truth("shared_new", "std::shared_ptr<Circle> counts", 24); truth("shared_new", "Circle", 168); }
NI void unique_make() { KEEP(std::unique_ptr<Shape>, q, std::make_unique<Square>(1.0)); truth("unique_make", "Square", 272); }
NI void unique_array() { KEEP(std::unique_ptr<Key[]>, q, std::make_unique<Key[]>(50)); truth("unique_array", "Key[]", 800); }
NI void new_plain() { for (int i = 0; i < 100; i++) sink = new Session(i); truth("new_plain", "Session", 9600); }
NI void new_ctor() { for (int i = 0; i < 10; i++) sink = new Square(i); truth("new_ctor", "Square", 2720); }
NI void new_array() { sink = new Point[100 + zero]; truth("new_array", "Point[]", 1600); }
NI void new_two() { sink = new Circle(1); sink = new Session(2); truth("new_two", "Circle", 168); truth("new_two", "Session", 96); }
NI void function() { double a[20] = {1.0 * zero}; KEEP(std::function<double(int)>, f, [a](int i) { return a[i]; }); sink = (void*)(long)f(1); truth("function", "std::function", 160); }
NI void any() { KEEP(std::any, a, Session(1)); truth("any", "std::any<Session>", 96); }
template <class T> struct Store { std::vector<T> items; std::map<int, std::unique_ptr<T>> index; void add(int i, const T& t) { items.push_back(t); index.emplace(i, std::make_unique<T>(t)); } };
NI void store() { KEEP(Store<Session>, s); for (int i = 0; i < 100; i++) s.add(i, Session(i)); truth("store", "std::vector<Session>", s.items.capacity() * 96); truth("store", "std::map<int, std::unique_ptr<Session>>", 4800); truth("store", "Session", 9600); }
NI void raw_malloc() { sink = std::malloc(3000); truth("raw_malloc", "-", 3000); }
NI void raw_new() { sink = ::operator new(500); truth("raw_new", "-", 500); }
namespace own { template <class T> struct vector { T* p; NI vector(int n) : p(static_cast<T*>(std::malloc(n * sizeof(T)))) {} }; }
NI void own_vector() { own::vector<Point> v(100); sink = v.p; truth("own_vector", "-", 1600); }
static char output[1 << 16];
namespace { struct Hidden { long a, b, c; Hidden(long x = 0) : a(x) {} }; }
NI void hidden() { KEEP(std::vector<Hidden>, v); for (int i = 0; i < 100; i++) v.emplace_back(i); sink = new Hidden(1); truth("hidden", "std::vector<(anonymous namespace)::Hidden>", v.capacity() * 24); truth("hidden", "Hidden", 24); }
int main() {
  setvbuf(stdout, output, _IOFBF, sizeof output);
  vector_push(); vector_emplace(); vector_reserve(); vector_sized(); vector_resize(); vector_insert(); vector_copy(); vector_list(); vector_bool(); vector_vector(); vector_unique(); vector_string();
  string_literal(); string_append(); string_copy(); string_wide(); map_index(); map_emplace(); map_insert(); set_insert(); set_copy(); unordered(); unordered_reserve(); unordered_set(); deque_push(); queue_push();
  list_push(); forward(); shared_make(); shared_new(); unique_make(); unique_array(); new_plain(); new_ctor(); new_array(); new_two(); function(); any(); store(); raw_malloc(); raw_new(); own_vector(); hidden();
  fflush(stdout); _Exit(0);
}
