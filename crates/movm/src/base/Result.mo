// Functions over #ok and #err, of mo:base and mo:core.
module {
  public func isOk(result : Any) : Bool = switch result { case (#ok _) true; case _ false };
  public func isErr(result : Any) : Bool = not isOk(result);
  public func mapOk<A, B, E>(result : Any, f : A -> B) : Any =
    switch result { case (#ok value) #ok(f(value)); case (#err error) #err(error) };
  public func mapErr<A, B, E>(result : Any, f : A -> B) : Any =
    switch result { case (#ok value) #ok(value); case (#err error) #err(f(error)) };
  public func chain<A, B, E>(result : Any, f : A -> B) : Any =
    switch result { case (#ok value) f(value); case (#err error) #err(error) };
  public func fromOption<A, E>(option : ?A, error : E) : Any =
    switch option { case (?value) #ok(value); case null #err(error) };
  public func toOption<A>(result : Any) : ?A = switch result { case (#ok value) ?value; case _ null };
}
