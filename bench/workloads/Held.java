// Holds objects until it is ended.
public class Held {
  static final Object[] held = new Object[400_000];

  public static void main(String[] arguments) throws Exception {
    for (int at = 0; at < held.length; at++) held[at] = new byte[100];
    Thread.sleep(Long.MAX_VALUE);
  }
}
