import java.util.HashMap;
import java.util.Map;
import java.util.Random;

/** Six objects for each of `java People COUNT`, and references between random ones. Waits until it is ended. */
public class People {
    static final Map<Long, Person> PEOPLE = new HashMap<>();

    static class Person {
        Long id;
        String name;
        double[] scores;
        Person friend;
        Object tag;
        long created;
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[0]);
        Person[] all = new Person[count];
        Random random = new Random(1);
        for (int number = 0; number < count; number++) {
            Person person = new Person();
            person.id = 1000L + number;
            person.name = String.format("%c person %07d", 'a' + number % 26, number);
            person.scores = new double[] {number, 1};
            person.created = number;
            all[number] = person;
            PEOPLE.put(person.id, person);
        }
        for (Person person : all) {
            person.friend = all[random.nextInt(count)];
        }
        all = null;
        System.out.println("ready");
        synchronized (PEOPLE) {
            PEOPLE.wait();
        }
    }
}
