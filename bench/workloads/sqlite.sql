-- Tables in memory: rows in, an index, joins, groups, texts, updates and deletions.
create table people (id integer primary key, name text, city text, born integer);
create table visits (person integer, place text, day integer, note text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
insert into people select i, 'person ' || i, 'city ' || (i * 7919 % 500), 1900 + i % 100 from n;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
insert into visits select i * 104729 % 20000 + 1, 'place ' || (i % 1000), i % 365, printf('%08x and some words more', i * 2654435761) from n;
create index people_city on people(city);
create index visits_person on visits(person, day);
select count(*), sum(length(note)) from visits join people on people.id = visits.person where born > 1950;
select city, count(*), group_concat(substr(name, 8, 3)) from people group by city order by 2 desc, 1 limit 5;
select place, count(distinct person), max(upper(note)) from visits group by place order by 2 desc, 1 limit 5;
update people set name = upper(name) || ' of ' || city where id % 3 = 0;
delete from visits where day between 100 and 200;
with words(w) as (select distinct substr(note, 1, 6) from visits) select count(*), min(w), max(w) from words;
select p.city, q.city, count(*) from people p join people q on q.id = p.id * 7 % 20000 + 1 group by 1, 2 order by 3 desc, 1, 2 limit 5;
select count(*) from (select name from people union select note from visits);
