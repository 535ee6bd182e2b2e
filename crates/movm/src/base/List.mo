// The linked list of mo:base: null or ?(head, tail). The List of mo:core is another one.
import Array "mo:base/Array";
module {
  public func nil<T>() : Any = null;
  public func isNil(list : Any) : Bool = switch list { case null true; case _ false };
  public func push<T>(head : T, list : Any) : Any = ?(head, list);
  public func make<T>(item : T) : Any = ?(item, null);
  public func last<T>(list : Any) : ?T {
    var rest = list;
    var found : ?T = null;
    label walk loop { switch rest { case null break walk; case (?(head, tail)) { found := ?head; rest := tail } } };
    found
  };
  public func pop<T>(list : Any) : Any = switch list { case null (null, null); case (?(head, tail)) (?head, tail) };
  public func size(list : Any) : Nat {
    var rest = list;
    var count = 0;
    label walk loop { switch rest { case null break walk; case (?(_, tail)) { count += 1; rest := tail } } };
    count
  };
  public func get<T>(list : Any, index : Nat) : ?T {
    var rest = list;
    var left = index;
    loop {
      switch rest {
        case null return null;
        case (?(head, tail)) { if (left == 0) { return ?head }; left -= 1; rest := tail };
      }
    }
  };
  public func toArray<T>(list : Any) : [T] {
    var rest = list;
    Array.tabulate<T>(size(list), func _ {
      switch rest { case (?(head, tail)) { rest := tail; head }; case null { assert false; loop {} } }
    })
  };
  public func fromArray<T>(array : [T]) : Any = Array.foldRight(array, null, func(head, tail) = ?(head, tail));
  public func toIter<T>(list : Any) : Any {
    var rest = list;
    object {
      public func next() : ?T = switch rest { case null null; case (?(head, tail)) { rest := tail; ?head } }
    }
  };
  public func reverse<T>(list : Any) : Any = foldLeft(list, null, func(done, head) = ?(head, done));
  public func foldLeft<T, S>(list : Any, first : S, f : (S, T) -> S) : S = Array.foldLeft(toArray(list), first, f);
  public func foldRight<T, S>(list : Any, first : S, f : (T, S) -> S) : S = Array.foldRight(toArray(list), first, f);
  public func iterate<T>(list : Any, f : T -> ()) = Array.forEach(toArray(list), f);
  public func map<A, B>(list : Any, f : A -> B) : Any = fromArray(Array.map(toArray(list), f));
  public func filter<A>(list : Any, f : A -> Bool) : Any = fromArray(Array.filter(toArray(list), f));
  public func find<A>(list : Any, f : A -> Bool) : ?A = Array.find(toArray(list), f);
  public func append<A>(one : Any, two : Any) : Any = foldRight(one, two, func(head, tail) = ?(head, tail));
}
