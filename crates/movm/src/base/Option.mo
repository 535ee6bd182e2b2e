// Functions over options, of mo:base and mo:core.
module {
  public func get<T>(option : ?T, other : T) : T = switch option { case (?value) value; case null other };
  public func getMapped<A, B>(option : ?A, f : A -> B, other : B) : B =
    switch option { case (?value) f(value); case null other };
  public func map<A, B>(option : ?A, f : A -> B) : ?B = switch option { case (?value) ?f(value); case null null };
  public func chain<A, B>(option : ?A, f : A -> ?B) : ?B = switch option { case (?value) f(value); case null null };
  public func flatten<A>(option : ??A) : ?A = switch option { case (?inner) inner; case null null };
  public func iterate<A>(option : ?A, f : A -> ()) = switch option { case (?value) f(value); case null () };
  public func forEach<A>(option : ?A, f : A -> ()) = iterate(option, f);
  public func some<A>(value : A) : ?A = ?value;
  public func isSome(option : ?Any) : Bool = switch option { case null false; case _ true };
  public func isNull(option : ?Any) : Bool = not isSome(option);
  public func unwrap<A>(option : ?A) : A { let ?value = option else { assert false; loop {} }; value };
  public func equal<A>(one : ?A, two : ?A, same : (A, A) -> Bool) : Bool =
    switch (one, two) { case (?a, ?b) same(a, b); case (null, null) true; case _ false };
}
