create table lines(id integer primary key, owner integer, text text);
with recursive n(x) as (select 1 union all select x + 1 from n where x < 120000)
insert into lines select x, x * 7919 % 1009, hex(x * 31) || printf('%040d', x * 104729 % 99991) from n;
create index by_owner on lines(owner, text);
create table owners as select owner, count(*) as times, group_concat(substr(text, 1, 12)) as texts from lines group by owner;
select sum(times), sum(length(texts)) from owners;
select owner, max(text) from lines where text > '3' group by owner order by 2 desc limit 10;
update lines set text = text || owner where owner % 5 = 0;
delete from lines where owner % 7 = 3;
select count(*), sum(length(text)) from lines;
select count(*) from lines as one join owners as other on one.owner = other.owner where other.times > 100;
